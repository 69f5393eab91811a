#pragma once

#include <string>
#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

namespace osb::controller {

namespace json = boost::json;

// The conditions of a status: only those that hold are there.
class Conditions {
 public:
  // `now` is written where a condition changes. Entries that make no sense are dropped.
  Conditions(const json::object& object, std::string now);

  void set(std::string_view type, std::string_view reason, std::string_view message);
  void clear(std::string_view type);
  bool has(std::string_view type) const;
  std::string_view reason(std::string_view type) const;
  json::array list() const { return list_; }

 private:
  json::object* find(std::string_view type);
  json::array list_;
  std::string now_;
};

}  // namespace osb::controller
