#include "cli/output/format.h"

#include <string>

#include "base/text.h"

namespace osb::cli {

std::string_view format_name(Format format) {
  switch (format) {
    case Format::Table:
      return "table";
    case Format::Wide:
      return "wide";
    case Format::Json:
      return "json";
    case Format::Yaml:
      return "yaml";
    case Format::Raw:
      return "raw";
  }
  return "table";
}

std::optional<Format> parse_format(std::string_view name) {
  for (const Format format : {Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Raw}) {
    if (equals_ignoring_case(format_name(format), name)) return format;
  }
  return std::nullopt;
}

}  // namespace osb::cli
