#include "config/settings.h"

#include <algorithm>

#include <fmt/format.h>

namespace osb::config {
namespace {

using std::chrono::seconds;

// A hundred years: deadlines in nanoseconds do not overflow.
constexpr std::int64_t kMaxSeconds = 36500LL * 86400;

std::string expected_one_of(const std::vector<std::string_view>& choices) {
  std::string out;
  for (const std::string_view choice : choices) out += (out.empty() ? "expected one of " : ", ") + toml_string(choice);
  return out;
}

}  // namespace

void Settings::section(std::string_view name, bool whole, bool commented) {
  section_ = name;
  whole_ = whole;
  commented_ = commented;
  only_.reset();
  if (reader_ != nullptr) reader_->expect_table(name);
}

void Settings::check_backend(std::string_view name, const std::string& fallback, bool security) {
  if (!only_ || only_->first == only_->second || reader_->is(section_, name, fallback.empty() ? "{}" : fallback))
    return;
  const std::string why = "means nothing with [runtime] type = \"" + std::string(to_string(only_->second)) + "\"";
  if (security) return reader_->reject(section_, name, why + ", which does not protect sandboxes in this way");
  reader_->warn(section_, name, why);
}

void Settings::removed(std::string_view name, std::string_view about) {
  if (reader_ != nullptr) {
    if (reader_->has(section_, name)) reader_->warn(section_, name, about);
    return;
  }
  add(name, Reload::Ignored, about, "", "");
  rows_.back().text.old = true;
}

void Settings::missing(std::string_view name, std::string_view about, std::string_view fallback,
                       std::string_view part) {
  if (reader_ != nullptr) {
    if (reader_->is(section_, name, fallback.empty() ? "\"\"" : fallback)) return;
    return reader_->reject(section_, name, "this server has no " + std::string(part) + " yet");
  }
  add(name, Reload::Ignored, std::string(about) + " Refused: there is no " + std::string(part) + " yet.",
      std::string(fallback), "");
  rows_.back().text.old = true;
}

void Settings::add(std::string_view name, Reload reload, std::string_view about, std::string fallback,
                   std::string_view written) {
  Row& row = rows_.emplace_back();
  row.text = {section_, std::string(name), std::move(fallback), std::string(written), std::string(about)};
  row.text.live = reload == Reload::Live;
  row.text.commented = commented_;
  row.reload = reload;
  row.whole = whole_;
}

void Settings::other(std::string_view name, std::string_view about, std::string_view fallback, std::string_view written,
                     Reload reload) {
  if (reader_ == nullptr) add(name, reload, about, std::string(fallback), written);
}

void Settings::old(std::string_view name, std::string_view about, const Allowed& allowed) {
  std::string value(allowed.choices.front());
  if (reader_ != nullptr) return read(name, value, allowed);
  add(name, Reload::Ignored, about, toml_string(value), "");
  rows_.back().text.old = true;
}

void Settings::read(std::string_view key, std::string& field, const Allowed& allowed) {
  if (auto text = reader_->string(section_, key)) {
    if (allowed.fix != nullptr) allowed.fix(*text);
    const bool known = allowed.choices.empty() || std::ranges::find(allowed.choices, *text) != allowed.choices.end();
    if (!known) return reader_->reject(section_, key, expected_one_of(allowed.choices));
    field = std::move(*text);
  }
  if (!allowed.empty && field.empty()) reader_->reject(section_, key, "must not be empty");
  if (allowed.absolute && !field.starts_with('/')) reader_->reject(section_, key, "expected an absolute path");
  const std::string_view fault = allowed.fault != nullptr ? allowed.fault(field) : "";
  if (!fault.empty()) reader_->reject(section_, key, fault);
}

// An empty path means the default, unless it is wrong.
void Settings::read(std::string_view key, std::filesystem::path& field, const Allowed& allowed) {
  std::string text = field.string();
  read(key, text, {.empty = allowed.empty});
  if (text.empty() && !allowed.absolute) text = field.string();
  field = expand_home(text, *environment_);
  if (allowed.absolute && !field.is_absolute()) reader_->reject(section_, key, "expected an absolute path");
}

void Settings::read(std::string_view key, bool& field, const Allowed&) {
  if (const auto flag = reader_->boolean(section_, key)) field = *flag;
}

void Settings::read(std::string_view key, int& field, const Allowed& allowed) {
  if (const auto number = reader_->integer(section_, key, allowed.min, allowed.max)) field = static_cast<int>(*number);
}

void Settings::read(std::string_view key, std::int64_t& field, const Allowed& allowed) {
  if (const auto number = reader_->integer(section_, key, allowed.min)) field = *number;
}

void Settings::read(std::string_view key, std::uint16_t& field, const Allowed&) {
  if (const auto number = reader_->integer(section_, key, 1, 65535)) field = static_cast<std::uint16_t>(*number);
}

void Settings::read(std::string_view key, double& field, const Allowed& allowed) {
  const auto number = reader_->number(section_, key);
  if (!number) return;
  if (allowed.positive && *number <= 0) reader_->reject(section_, key, "must be above 0");
  if (*number < 0) reader_->reject(section_, key, "must not be negative");
  field = *number;
}

void Settings::read(std::string_view key, seconds& field, const Allowed&) {
  if (const auto number = reader_->integer(section_, key, 1, kMaxSeconds)) field = seconds(*number);
}

void Settings::read(std::string_view key, std::chrono::duration<double>& field, const Allowed& allowed) {
  double count = field.count();
  read(key, count, allowed);
  field = std::chrono::duration<double>(count);
}

void Settings::read(std::string_view key, std::optional<seconds>& field, const Allowed& allowed) {
  if (const auto number = reader_->integer(section_, key, allowed.min, kMaxSeconds)) field = seconds(*number);
}

// Numbers up to 0 mean no limit.
void Settings::read(std::string_view key, std::optional<std::int64_t>& field, const Allowed& allowed) {
  if (const auto number = reader_->integer(section_, key, allowed.min)) {
    field = *number > 0 ? number : std::nullopt;
  }
}

void Settings::read(std::string_view key, RuntimeType& field, const Allowed&) {
  std::string text(to_string(field));
  read(key, text, {.choices = {"native", "docker", "kubernetes"}});
  for (const RuntimeType type : {RuntimeType::Native, RuntimeType::Docker, RuntimeType::Kubernetes}) {
    if (text == to_string(type)) field = type;
  }
}

void Settings::read(std::string_view key, std::vector<std::string>& field, const Allowed& allowed) {
  if (auto list = reader_->strings(section_, key)) field = std::move(*list);
  for (const std::string& each : field) {
    const std::string_view fault = allowed.fault != nullptr ? allowed.fault(each) : "";
    if (!fault.empty()) reader_->reject(section_, key, fault);
  }
}

void Settings::read(std::string_view key, std::map<std::string, std::string>& field, const Allowed&) {
  if (auto map = reader_->string_map(section_, key)) field = std::move(*map);
}

std::string Settings::text_of(double value) {
  std::string out = fmt::format("{}", value);
  return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}

std::string Settings::text_of(const std::vector<std::string>& value) {
  std::string out = "[";
  for (const std::string& each : value) out += (out.size() == 1 ? "" : ", ") + toml_string(each);
  return out + "]";
}

std::string Settings::text_of(const std::map<std::string, std::string>& value) {
  std::string out;
  for (const auto& [name, text] : value) {
    out += (out.empty() ? "{ " : ", ") + toml_string(name) + " = " + toml_string(text);
  }
  return out.empty() ? out : out + " }";
}

std::vector<SettingText> server_settings() {
  ServerConfig defaults;
  Settings settings = Settings::listing();
  declare_server_settings(settings, defaults);
  std::vector<SettingText> out;
  for (const Settings::Row& row : settings.rows()) out.push_back(row.text);
  return out;
}

}  // namespace osb::config
