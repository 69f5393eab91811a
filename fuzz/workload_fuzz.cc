// Objects of a cluster, which people edit by hand, and the operator's template.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/json.h"
#include "runtime/kubernetes/manifest.h"
#include "runtime/kubernetes/workload.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  if (const auto value = api::parse_json(text); value && value->is_object()) {
    const auto& object = value->get_object();
    (void)runtime::trouble_of(object);
    (void)runtime::to_instance(object, nullptr);
    const runtime::Instance instance = runtime::to_instance(object, &object);
    if (instance.ports) (void)instance.ports->route(80);
  }
  runtime::KubernetesOptions options;
  auto workload = runtime::parse_workload(std::string(text));
  if (!workload) return 0;
  options.workload = std::move(*workload);
  options.ns = "n";
  api::CreateSandbox create;
  create.image = api::ImageSpec{"image", {}};
  create.entrypoint = {"true"};
  (void)runtime::check_for_cluster(create, options);
  runtime::SandboxSpec spec;
  spec.id = "id";
  spec.create = std::make_shared<const api::CreateSandbox>(create);
  spec.execd_token = "t";
  // The object stays the sandbox's with any template.
  if (runtime::sandbox_id(runtime::batch_sandbox(spec, options, "image")) != "id") std::abort();
  return 0;
}
