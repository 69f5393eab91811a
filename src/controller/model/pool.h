#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kubernetes/object.h"

namespace osb::controller {

namespace json = boost::json;
using kubernetes::Key;
using kubernetes::ObjectPtr;

// A number of pods, or a part of them in percent.
struct Share {
  int value = 25;
  bool percent = true;
  // Of `whole`, rounded up, at least 1: a pool that may change nothing would never change.
  int of(int whole) const;
};

enum class Recycle { Delete, Restart, Noop };

// A Pool as its controller reads it; see BatchSandbox for `problems`.
struct Pool {
  ObjectPtr object;
  Key key;
  std::string uid;
  std::int64_t generation = 0;
  bool deleting = false;
  const json::object* pod_template = nullptr;  // in `object`
  int buffer_min = 0, buffer_max = 0, pool_min = 0, pool_max = 0;
  Share scale_unavailable, update_unavailable;
  Recycle recycle = Recycle::Delete;
  std::string revision;  // of the template
  std::vector<std::string> problems;

  static Pool read(ObjectPtr object);
};

// Sixteen hexadecimal digits that change with the template. The order of keys does not matter.
std::string template_revision(const json::object& pod_template);

}  // namespace osb::controller
