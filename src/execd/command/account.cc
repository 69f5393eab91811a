#include "execd/command/account.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "execd/command/small_file.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMaxFile = 16 * 1024 * 1024;

// The first N fields between colons; the last takes the rest of the line.
template <std::size_t N>
std::array<std::string_view, N> fields(std::string_view line) {
  std::array<std::string_view, N> out;
  for (std::size_t i = 0; i < N; ++i) {
    const std::size_t colon = i + 1 < N ? line.find(':') : std::string_view::npos;
    out[i] = line.substr(0, colon);
    line.remove_prefix(colon == std::string_view::npos ? line.size() : colon + 1);
  }
  return out;
}

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

bool lists(std::string_view members, std::string_view name) {
  while (!members.empty()) {
    const std::size_t comma = members.find(',');
    if (members.substr(0, comma) == name) return true;
    members.remove_prefix(comma == std::string_view::npos ? members.size() : comma + 1);
  }
  return false;
}

// Takes the first line off `text`.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

template <typename Matches>
std::optional<Account> find_where(const AccountFiles& files, Matches matches) {
  const std::string passwd = read_small_file(files.passwd, kMaxFile).value_or("");
  for (std::string_view users = passwd; !users.empty();) {
    const auto [name, password, uid_text, gid_text, rest] = fields<5>(next_line(users));
    const auto uid = number(uid_text);
    const auto gid = number(gid_text);
    if (name.empty() || !uid || !gid || !matches(name, *uid)) continue;
    Account account{*uid, *gid, {}};
    const std::string group = read_small_file(files.group, kMaxFile).value_or("");
    for (std::string_view groups = group; !groups.empty();) {
      const auto [group_name, secret, id, members] = fields<4>(next_line(groups));
      const auto value = number(id);
      if (value && *value != account.gid && lists(members, name)) account.groups.push_back(*value);
    }
    return account;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Account> find_account(std::string_view name, const AccountFiles& files) {
  return find_where(files, [&](std::string_view entry, uid_t) { return entry == name; });
}

std::optional<Account> find_account(uid_t uid, const AccountFiles& files) {
  return find_where(files, [&](std::string_view, uid_t entry) { return entry == uid; });
}

}  // namespace osb::execd
