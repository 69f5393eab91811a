#include "config/toml_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "base/toml.h"

namespace osb::config {
namespace {

// The parser may quote a part of a value: only single characters stay.
std::string without_quotes(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto open = text.find('\'');
    const auto close = open == std::string_view::npos ? open : text.find('\'', open + 1);
    if (close == std::string_view::npos) break;
    out += text.substr(0, open);
    out += close - open <= 2 ? text.substr(open, close - open + 1) : "'...'";
    text.remove_prefix(close + 1);
  }
  return out + std::string(text);
}

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  text = trimmed(text, " \t\r\n");
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> to_integer(const toml::node& node) {
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* text = node.as_string()) return parse_number<std::int64_t>(text->get());
  const auto* number = node.as_floating_point();
  if (number == nullptr) return std::nullopt;
  const double value = number->get();
  if (!(std::abs(value) <= 9e15)) return std::nullopt;
  const auto whole = static_cast<std::int64_t>(value);
  if (static_cast<double>(whole) != value) return std::nullopt;
  return whole;
}

std::optional<double> to_double(const toml::node& node) {
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* whole = node.as_integer()) return static_cast<double>(whole->get());
  if (const auto* text = node.as_string()) return parse_number<double>(text->get());
  return std::nullopt;
}

std::optional<bool> to_bool(const toml::node& node) {
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* whole = node.as_integer()) {
    if (whole->get() == 0 || whole->get() == 1) return whole->get() == 1;
    return std::nullopt;
  }
  const auto* text = node.as_string();
  if (text == nullptr) return std::nullopt;
  const std::string word = lower(text->get());
  for (const std::string_view yes : {"true", "1", "yes", "on", "t", "y"}) {
    if (word == yes) return true;
  }
  for (const std::string_view no : {"false", "0", "no", "off", "f", "n"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

std::string range(std::int64_t min, std::int64_t max) {
  if (max == std::numeric_limits<std::int64_t>::max()) return "an integer of at least " + std::to_string(min);
  return "an integer from " + std::to_string(min) + " to " + std::to_string(max);
}

}  // namespace

struct TomlReader::Impl {
  toml::table document;
  std::string source;
  std::optional<Error> error;
  std::vector<std::string> warnings;

  std::string place(std::string_view path, std::string_view key) const {
    const toml::table* table = section(path);
    const toml::node* node = table == nullptr ? nullptr : table->get(key);
    if (node == nullptr) node = table;
    if (node == nullptr) node = document.get(path);
    std::string where = source;
    if (node != nullptr && node->source().begin.line > 0) where += ":" + std::to_string(node->source().begin.line);
    where += path.empty() ? ":" : ": [" + std::string(path) + "]";
    if (!key.empty()) where += " " + std::string(key);
    return where;
  }

  void add_names(const toml::table& table, const std::string& path, std::vector<Name>& out,
                 const std::function<bool(const Name&)>& is_value) const {
    for (const auto& [key, node] : table) {
      out.push_back({path, std::string(key.str())});
      const Name name = out.back();
      const toml::table* inner = node.as_table();
      if (inner == nullptr || is_value(name)) continue;
      add_names(*inner, path.empty() ? name.key : path + "." + name.key, out, is_value);
    }
  }

  const toml::table* section(std::string_view path) const {
    const toml::table* table = &document;
    while (!path.empty()) {
      const std::string_view step = path.substr(0, path.find('.'));
      path.remove_prefix(std::min(path.size(), step.size() + 1));
      const toml::node* node = table->get(step);
      table = node == nullptr ? nullptr : node->as_table();
      if (table == nullptr) return nullptr;
    }
    return table;
  }

  const toml::node* find(std::string_view path, std::string_view key) const {
    const toml::table* table = error ? nullptr : section(path);
    return table == nullptr ? nullptr : table->get(key);
  }
};

TomlReader::TomlReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TomlReader::~TomlReader() = default;
TomlReader::TomlReader(TomlReader&&) noexcept = default;

Result<TomlReader> TomlReader::parse(std::string_view text, const std::filesystem::path& source) {
  toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::source_position at = parsed.error().source().begin;
    return fail(Code::InvalidRequest, source.string() + ":" + std::to_string(at.line) + ":" +
                                          std::to_string(at.column) +
                                          ": not valid TOML: " + without_quotes(parsed.error().description()));
  }
  auto impl = std::make_unique<Impl>();
  impl->document = std::move(parsed).table();
  impl->source = source.string();
  return TomlReader(std::move(impl));
}

void TomlReader::expect_table(std::string_view name) {
  const toml::node* node = impl_->document.get(name);
  if (node != nullptr && !node->is_table()) reject(name, "", "expected a table");
}

std::vector<TomlReader::Name> TomlReader::names(const std::function<bool(const Name&)>& is_value) const {
  std::vector<Name> out;
  impl_->add_names(impl_->document, "", out, is_value);
  return out;
}

bool TomlReader::is(std::string_view section, std::string_view key, std::string_view value) const {
  const toml::node* node = impl_->find(section, key);
  if (node == nullptr) return true;
  const toml::parse_result other = toml::parse("value = " + std::string(value));
  return other && toml::table{{"value", *node}} == other.table();
}

bool TomlReader::has(std::string_view section) const { return impl_->section(section) != nullptr; }

bool TomlReader::has(std::string_view section, std::string_view key) const {
  const toml::table* table = impl_->section(section);
  return table != nullptr && table->contains(key);
}

std::optional<std::string> TomlReader::string(std::string_view section, std::string_view key) {
  const toml::node* node = impl_->find(section, key);
  if (node == nullptr) return std::nullopt;
  if (const auto* text = node->as_string()) return text->get();
  reject(section, key, "expected a string");
  return std::nullopt;
}

std::optional<std::int64_t> TomlReader::integer(std::string_view section, std::string_view key, std::int64_t min,
                                                std::int64_t max) {
  const toml::node* node = impl_->find(section, key);
  if (node == nullptr) return std::nullopt;
  const auto number = to_integer(*node);
  if (number && *number >= min && *number <= max) return number;
  reject(section, key, "expected " + range(min, max));
  return std::nullopt;
}

std::optional<double> TomlReader::number(std::string_view section, std::string_view key) {
  const toml::node* node = impl_->find(section, key);
  if (node == nullptr) return std::nullopt;
  const auto number = to_double(*node);
  if (number && std::isfinite(*number)) return number;
  reject(section, key, "expected a number");
  return std::nullopt;
}

std::optional<bool> TomlReader::boolean(std::string_view section, std::string_view key) {
  const toml::node* node = impl_->find(section, key);
  if (node == nullptr) return std::nullopt;
  const auto flag = to_bool(*node);
  if (!flag) reject(section, key, "expected true or false");
  return flag;
}

std::optional<std::vector<std::string>> TomlReader::strings(std::string_view section, std::string_view key) {
  const toml::node* node = impl_->find(section, key);
  if (node == nullptr) return std::nullopt;
  std::vector<std::string> out;
  const toml::array* items = node->as_array();
  bool good = items != nullptr;
  for (std::size_t i = 0; good && i < items->size(); ++i) {
    const auto* text = items->get(i)->as_string();
    good = text != nullptr;
    if (good) out.push_back(text->get());
  }
  if (good) return out;
  reject(section, key, "expected an array of strings");
  return std::nullopt;
}

std::optional<std::map<std::string, std::string>> TomlReader::string_map(std::string_view section,
                                                                         std::string_view key) {
  const toml::node* node = impl_->find(section, key);
  if (node == nullptr) return std::nullopt;
  const toml::table* table = node->as_table();
  if (table == nullptr) {
    reject(section, key, "expected a table of strings");
    return std::nullopt;
  }
  std::map<std::string, std::string> out;
  for (const auto& [name, item] : *table) {
    const auto* text = item.as_string();
    if (text == nullptr) {
      reject(section, key, "expected a table of strings");
      return std::nullopt;
    }
    out.emplace(name.str(), text->get());
  }
  return out;
}

template <typename F>
void TomlReader::for_each_table(std::string_view section, std::string_view key, F take) {
  const toml::node* node = impl_->find(section, key);
  if (node == nullptr) return;
  const toml::array* items = node->as_array();
  if (items == nullptr) return reject(section, key, "expected an array of tables");
  for (const toml::node& item : *items) {
    const toml::table* table = item.as_table();
    if (table == nullptr) return reject(section, key, "expected an array of tables");
    take(*table);
  }
}

std::vector<std::map<std::string, std::string>> TomlReader::tables(std::string_view section, std::string_view key) {
  std::vector<std::map<std::string, std::string>> out;
  for_each_table(section, key, [&](const toml::table& table) {
    std::map<std::string, std::string>& entry = out.emplace_back();
    for (const auto& [name, value] : table) {
      if (const auto* text = value.as_string()) {
        entry.emplace(name.str(), text->get());
      } else {
        reject(section, std::string(key) + "." + std::string(name.str()), "expected a string");
      }
    }
  });
  return out;
}

std::vector<std::map<std::string, std::vector<std::string>>> TomlReader::tables_of_lists(std::string_view section,
                                                                                         std::string_view key) {
  std::vector<std::map<std::string, std::vector<std::string>>> out;
  for_each_table(section, key, [&](const toml::table& table) {
    auto& entry = out.emplace_back();
    for (const auto& [name, value] : table) {
      std::vector<std::string>& texts = entry[std::string(name.str())];
      bool good = true;
      const auto add = [&](const toml::node& item) {
        if (const auto* text = item.as_string()) {
          texts.push_back(text->get());
        } else if (const auto* number = item.as_integer()) {
          texts.push_back(std::to_string(number->get()));
        } else {
          good = false;
        }
      };
      if (const toml::array* items = value.as_array()) {
        for (const toml::node& item : *items) add(item);
      } else {
        add(value);
      }
      if (!good) {
        reject(section, std::string(key) + "." + std::string(name.str()), "expected a string or an array of strings");
      }
    }
  });
  return out;
}

void TomlReader::reject(std::string_view section, std::string_view key, std::string_view why) {
  if (impl_->error) return;
  impl_->error.emplace(Code::InvalidRequest, impl_->place(section, key) + ": " + std::string(why));
}

void TomlReader::warn(std::string_view section, std::string_view key, std::string_view why) {
  impl_->warnings.push_back(impl_->place(section, key) + ": " + std::string(why));
}

const std::vector<std::string>& TomlReader::warnings() const { return impl_->warnings; }

bool TomlReader::failed() const { return impl_->error.has_value(); }

Result<void> TomlReader::finish() const {
  if (impl_->error) return Failure(*impl_->error);
  return {};
}

}  // namespace osb::config
