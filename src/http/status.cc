#include "http/status.h"

#include <algorithm>
#include <iterator>

namespace osb::http {
namespace {

constexpr struct {
  Code code;
  int status;
} kTable[] = {
    {Code::InvalidRequest, 400}, {Code::Unprocessable, 422},
    {Code::Unauthorized, 401},   {Code::Forbidden, 403},
    {Code::NotFound, 404},       {Code::Conflict, 409},
    {Code::TooLarge, 413},       {Code::Exhausted, 429},
    {Code::Unsupported, 501},    {Code::Unavailable, 503},
    {Code::Timeout, 504},        {Code::Cancelled, 503},  // behind Unavailable, which is what 503 says
    {Code::Internal, 500},
};

}  // namespace

int status_of(Code code) {
  const auto* row = std::ranges::find(kTable, code, [](const auto& each) { return each.code; });
  return row != std::end(kTable) ? row->status : 500;
}

Code code_of(int status) {
  const auto* row = std::ranges::find(kTable, status, [](const auto& each) { return each.status; });
  return row != std::end(kTable) ? row->code : Code::Internal;
}

}  // namespace osb::http
