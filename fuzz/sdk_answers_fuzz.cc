// Answers of a server, as the SDK and osb decode them; and those of sandboxd, as the server does.

#include <cstdint>
#include <string>
#include <string_view>

#include "api/json.h"
#include "api/native.h"
#include "client/decode.h"
#include "client/errors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  opensandbox::Reply reply;
  reply.status = 200;
  reply.body.assign(reinterpret_cast<const char*>(data), size);
  (void)opensandbox::decode_sandbox(reply);
  (void)opensandbox::decode_sandbox_list(reply);
  (void)opensandbox::decode_renewed(reply);
  (void)opensandbox::decode_snapshot(reply);
  (void)opensandbox::decode_snapshot_list(reply);
  (void)opensandbox::decode_template(reply);
  (void)opensandbox::decode_template_list(reply);
  (void)opensandbox::decode_images(reply);
  (void)opensandbox::decode_diagnostics(reply);
  (void)opensandbox::decode_metrics(reply.body, "");
  (void)opensandbox::api_error(500, reply.body, "");
  if (const auto value = osb::api::parse_json(reply.body)) {
    (void)osb::api::native::decode_create_sandbox(*value);
    (void)osb::api::native::decode_sandbox(*value);
    (void)osb::api::native::decode_stats(*value);
    (void)osb::api::native::decode_snapshot(*value);
    (void)osb::api::native::decode_image(*value);
  }
  return 0;
}
