#pragma once

#include <string>
#include <string_view>

#include <boost/json/object.hpp>

#include "http/message.h"
#include "http/url.h"
#include "kubernetes/client.h"
#include "kubernetes/testing/object_store.h"

// Answers and events as the API server writes them.
namespace osb::kubernetes::testing {

http::Response object_answer(const json::object& object, int status = 200);
http::Response status_answer(int status, std::string_view reason, std::string_view message);
http::Response refusal(const Error& error);
http::Response answer_of(const Result<ObjectPtr>& result, int status = 200);

json::object status_object(const Error& error);
Error expired(std::string message);

// One line of a watch.
std::string event_line(std::string_view type, const json::object& object);
// The same for a change, as a watch sees it that selected the object before, and selects it now.
std::string change_line(const Change& change, bool before, bool now);

DeleteOptions delete_options(const json::object& body, const http::Query& query);

}  // namespace osb::kubernetes::testing
