#include "api/lifecycle_entrypoint.h"

#include <utility>

#include "api/lifecycle_error.h"

namespace osb::api {

Result<std::vector<std::string>> entrypoint_words(const std::vector<std::string>& entrypoint) {
  if (entrypoint.size() != 1 || entrypoint.front().find(' ') == std::string::npos) return entrypoint;
  std::vector<std::string> words;
  std::string word;
  bool inside = false;  // a word has begun, maybe an empty one: ''
  char quote = 0;
  const std::string& line = entrypoint.front();
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '\'') {
      if (c == '\'') {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\\' && (quote == 0 || (i + 1 < line.size() && (line[i + 1] == '"' || line[i + 1] == '\\')))) {
      if (i + 1 == line.size()) return invalid_parameter("/entrypoint", "nothing follows the last backslash");
      word += line[++i];
      inside = true;
    } else if (quote == '"') {
      if (c == '"') {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      inside = true;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (inside) words.push_back(std::exchange(word, ""));
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  if (quote != 0) return invalid_parameter("/entrypoint", "a quote is not closed");
  if (inside) words.push_back(std::move(word));
  return words;
}

}  // namespace osb::api
