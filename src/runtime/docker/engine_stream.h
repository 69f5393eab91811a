#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

#include "base/error.h"

// Parsers of an engine's streams. They do not trust the engine: a piece may end anywhere and hold
// anything.
namespace osb::runtime {

// JSON documents, one per line.
class JsonLines {
 public:
  void add(std::string_view piece);
  void finish() { rest_ += '\n'; }  // the last document may lack it
  // The next document that is there in full; nothing: more is needed. A line that is no JSON, or has no end, is an
  // error.
  Result<std::optional<boost::json::value>> next();

 private:
  std::string rest_;
  std::size_t at_ = 0;
};

// A line of /events.
struct EngineEvent {
  enum class Action { Other, Gone, Ended, Changed, Created };  // Changed: paused, started and the like
  std::string type;                                            // "container", "image", "volume", "network"
  Action action = Action::Other;
  std::string object;   // the engine's id of what it is about
  std::string sandbox;  // of a container that is one, "" otherwise
  std::string sidecar;  // of a container that is the egress sidecar of one: the sandbox
  std::string time;     // as `since` of a later question wants it; "" when it has none
};
EngineEvent read_event(const boost::json::value& line);

// Layers of a pull on their way, as one number that only grows.
class PullProgress {
 public:
  // A line of the answer to a pull; true when the text changed.
  bool take(const boost::json::value& line);
  std::string text() const;
  int percent() const { return percent_; }  // -1: nothing known yet

 private:
  struct Layer {
    std::int64_t current = 0, total = 0;
  };
  std::map<std::string, Layer> layers_;
  int percent_ = -1;
};

}  // namespace osb::runtime
