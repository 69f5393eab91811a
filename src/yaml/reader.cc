#include "yaml/reader.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string>
#include <yaml.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

namespace osb::yaml {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 64;

// Plain scalars of YAML's core schema; everything else is text.
json::value plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  const bool number_like = text.find_first_not_of("0123456789+-.eE") == std::string::npos &&
                           text.find_first_of("0123456789") != std::string::npos;
  if (number_like) {
    char* end = nullptr;
    errno = 0;
    const long long integer = std::strtoll(text.c_str(), &end, 10);
    if (*end == '\0' && errno == 0) return integer;
    const double number = std::strtod(text.c_str(), &end);
    if (*end == '\0' && std::isfinite(number)) return number;
  }
  return json::value(text);
}

Failure broken(std::string why) { return fail(Code::InvalidRequest, std::move(why)); }

class Reader {
 public:
  explicit Reader(const std::string& text) {
    yaml_parser_initialize(&parser_);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  ~Reader() {
    yaml_event_delete(&event_);
    yaml_parser_delete(&parser_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Result<json::value> document() {
    if (auto started = expect(YAML_STREAM_START_EVENT); !started) return Failure(started.error());
    if (auto more = next(); !more) return Failure(more.error());
    if (event_.type == YAML_STREAM_END_EVENT) return json::value(nullptr);
    if (auto more = next(); !more) return Failure(more.error());
    auto value = read(0);
    if (!value) return value;
    if (auto ended = expect(YAML_DOCUMENT_END_EVENT); !ended) return Failure(ended.error());
    if (auto ended = expect(YAML_STREAM_END_EVENT); !ended) return broken("more than one document");
    return value;
  }

 private:
  Result<void> next() {
    yaml_event_delete(&event_);
    event_ = {};
    if (yaml_parser_parse(&parser_, &event_) == 1) return {};
    return broken("line " + std::to_string(parser_.problem_mark.line + 1) + ": " +
                  (parser_.problem != nullptr ? parser_.problem : "cannot be read"));
  }

  Result<void> expect(yaml_event_type_t type) {
    if (auto more = next(); !more) return more;
    if (event_.type != type)
      return broken("line " + std::to_string(event_.start_mark.line + 1) + ": not expected here");
    return {};
  }

  // The value that the current event begins.
  Result<json::value> read(std::size_t depth) {
    if (depth > kMaxDepth) return broken("nested too deeply");
    switch (event_.type) {
      case YAML_SCALAR_EVENT: {
        const auto& scalar = event_.data.scalar;
        if (auto plain = check(scalar.anchor, scalar.tag); !plain) return Failure(plain.error());
        const std::string text(reinterpret_cast<const char*>(scalar.value), scalar.length);
        return scalar.plain_implicit != 0 ? plain_scalar(text) : json::value(text);
      }
      case YAML_SEQUENCE_START_EVENT:
        return read_sequence(depth);
      case YAML_MAPPING_START_EVENT:
        return read_mapping(depth);
      default:
        return broken("line " + std::to_string(event_.start_mark.line + 1) + ": not supported here");
    }
  }

  Result<void> check(const yaml_char_t* anchor, const yaml_char_t* tag) const {
    if (anchor == nullptr && tag == nullptr) return {};
    return broken("line " + std::to_string(event_.start_mark.line + 1) + ": anchors and tags are not supported");
  }

  Result<json::value> read_sequence(std::size_t depth) {
    const auto& sequence = event_.data.sequence_start;
    if (auto plain = check(sequence.anchor, sequence.tag); !plain) return Failure(plain.error());
    json::array out;
    for (;;) {
      if (auto more = next(); !more) return Failure(more.error());
      if (event_.type == YAML_SEQUENCE_END_EVENT) return json::value(std::move(out));
      auto item = read(depth + 1);
      if (!item) return item;
      out.push_back(std::move(*item));
    }
  }

  Result<json::value> read_mapping(std::size_t depth) {
    const auto& mapping = event_.data.mapping_start;
    if (auto plain = check(mapping.anchor, mapping.tag); !plain) return Failure(plain.error());
    json::object out;
    for (;;) {
      if (auto more = next(); !more) return Failure(more.error());
      if (event_.type == YAML_MAPPING_END_EVENT) return json::value(std::move(out));
      if (event_.type != YAML_SCALAR_EVENT) return broken("keys must be text");
      const std::string key(reinterpret_cast<const char*>(event_.data.scalar.value), event_.data.scalar.length);
      if (auto more = next(); !more) return Failure(more.error());
      auto item = read(depth + 1);
      if (!item) return item;
      out[key] = std::move(*item);
    }
  }

  yaml_parser_t parser_{};
  yaml_event_t event_{};
};

}  // namespace

Result<json::value> parse(const std::string& text) { return Reader(text).document(); }

}  // namespace osb::yaml
