#include "controller/model/conditions.h"

#include <utility>

#include "kubernetes/object.h"

namespace osb::controller {

Conditions::Conditions(const json::object& object, std::string now) : now_(std::move(now)) {
  const json::value* list = kubernetes::find(object, {"status", "conditions"});
  if (list == nullptr || !list->is_array()) return;
  for (const json::value& each : list->get_array()) {
    if (each.is_object() && kubernetes::text(each.get_object(), {"status"}) == "True") list_.push_back(each);
  }
}

json::object* Conditions::find(std::string_view type) {
  for (json::value& each : list_) {
    if (kubernetes::text(each.get_object(), {"type"}) == type) return &each.get_object();
  }
  return nullptr;
}

void Conditions::set(std::string_view type, std::string_view reason, std::string_view message) {
  json::object wanted{
      {"type", type}, {"status", "True"}, {"reason", reason}, {"message", message}, {"lastTransitionTime", now_}};
  json::object* known = find(type);
  if (known == nullptr) {
    list_.emplace_back(std::move(wanted));
  } else if (kubernetes::text(*known, {"reason"}) != reason || kubernetes::text(*known, {"message"}) != message) {
    *known = std::move(wanted);
  }
}

void Conditions::clear(std::string_view type) {
  json::array left;
  for (json::value& each : list_) {
    if (kubernetes::text(each.get_object(), {"type"}) != type) left.push_back(std::move(each));
  }
  list_ = std::move(left);
}

bool Conditions::has(std::string_view type) const { return const_cast<Conditions*>(this)->find(type) != nullptr; }

std::string_view Conditions::reason(std::string_view type) const {
  const json::object* found = const_cast<Conditions*>(this)->find(type);
  return found == nullptr ? std::string_view() : kubernetes::text(*found, {"reason"});
}

}  // namespace osb::controller
