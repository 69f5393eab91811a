#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "base/error.h"

namespace osb::kubernetes {

// A label selector as the API writes it: "a=b, c!=d, e in (f,g), h notin (i), j, !k", all of which must hold.
class LabelSelector {
 public:
  static Result<LabelSelector> parse(std::string_view text);
  bool matches(const boost::json::object& object) const;

 private:
  enum class Operator { In, NotIn, Exists, Missing };
  struct Term {
    std::string key;
    Operator how = Operator::Exists;
    std::vector<std::string> values;
  };
  static Result<Term> parse_term(std::string_view text);
  std::vector<Term> terms_;
};

// A field selector: "metadata.name=a,status.phase!=Running". A missing field counts as empty.
class FieldSelector {
 public:
  static Result<FieldSelector> parse(std::string_view text);
  bool matches(const boost::json::object& object) const;

 private:
  struct Term {
    std::vector<std::string> path;
    bool equal = true;
    std::string value;
  };
  std::vector<Term> terms_;
};

}  // namespace osb::kubernetes
