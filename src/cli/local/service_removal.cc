#include "cli/local/service_removal.h"

#include <set>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "api/json.h"
#include "async/run_loop.h"
#include "cli/local/daemon_start.h"
#include "cli/local/list_directory.h"
#include "cli/local/service_network.h"
#include "http/client.h"
#include "sys/cgroup.h"
#include "sys/pidfd.h"
#include "sys/spawn.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::chrono::seconds kDeath(5);  // of a process that was killed

// For sandboxd's answers. A removal waits for processes that a disk may hold up.
constexpr std::chrono::seconds kAnswer(10), kRemoval(30);

// Removes every sandbox through sandboxd, which knows all that belongs to one. Ends early if sandboxd does not answer:
// the rest goes with the cgroups.
net::awaitable<void> remove_sandboxes(std::string socket) {
  http::Client client(http::make_plain_connector());
  const std::string origin = "unix:" + socket;
  http::ClientRequest question;
  question.target = "/v1/sandboxes";
  question.timeouts = {.connect = kAnswer, .head = kAnswer, .body_stall = kAnswer};
  auto answer = co_await client.send(origin, std::move(question));
  if (!answer) co_return;
  auto body = co_await answer->body->read_all(64 << 20);
  if (!body) co_return;
  auto value = api::parse_json(*body);
  if (!value) co_return;
  const json::object* object = value->if_object();
  const json::value* list = object != nullptr ? object->if_contains("sandboxes") : nullptr;
  if (list == nullptr || !list->is_array()) co_return;
  for (const json::value& each : list->get_array()) {
    const json::object* sandbox = each.if_object();
    const json::value* id = sandbox != nullptr ? sandbox->if_contains("id") : nullptr;
    if (id == nullptr || !id->is_string()) continue;
    http::ClientRequest request;
    request.method = "DELETE";
    request.target = "/v1/sandboxes/" + std::string(id->get_string());
    request.timeouts = {.connect = kAnswer, .head = kRemoval, .body_stall = kAnswer};
    auto removed = co_await client.send(origin, std::move(request));
    if (!removed) co_return;
    if (removed->body) (void)co_await removed->body->read_all(1 << 20);
  }
}

// Cgroups of the service, in every hierarchy.
std::vector<fs::path> cgroups_of(const std::string& parent) {
  std::vector<fs::path> out;
  std::error_code ignored;
  const fs::path root = "/sys/fs/cgroup";
  if (fs::exists(root / parent, ignored)) out.push_back(root / parent);
  for (const fs::path& each : list_directory(root)) {
    if (!fs::is_symlink(each, ignored) && fs::is_directory(each / parent, ignored)) out.push_back(each / parent);
  }
  return out;
}

// Sandboxes outlive a sandboxd that has died; processes in cgroups of our name are ours.
void remove_cgroups(const std::string& parent) {
  for (const fs::path& top : cgroups_of(parent)) {
    const auto cgroup = sys::Cgroup::at(top);
    (void)cgroup.kill();
    (void)cgroup.wait_empty(kDeath);
    (void)cgroup.remove();
  }
}

// Best effort: a host may have neither program, and then has nothing of ours there.
void run_quietly(const std::vector<std::string>& words) {
  const auto program = sys::find_program(words[0], "/usr/sbin:/sbin:/usr/bin:/bin:/usr/local/sbin");
  if (!program) return;
  sys::SpawnPlan plan;
  plan.program = *program;
  plan.argv = words;
  auto child = sys::spawn(plan);
  if (!child) return;
  (void)sys::wait_ended(child->pidfd.get(), kDeath);
  (void)sys::reap(*child);
}

}  // namespace

std::size_t count_running_sandboxes(const ServiceRecord& record) {
  std::set<std::string> names;
  for (const fs::path& top : cgroups_of(record.cgroup_parent)) {
    for (std::string& name : sys::cgroups_in(top)) {
      if (sys::Cgroup::at(top / name).use() == sys::Cgroup::Use::Busy) names.insert(std::move(name));
    }
  }
  return names.size();
}

Result<void> remove_service(const fs::path& directory, const ServiceRecord& record) {
  if (record.server) stop_daemon(*record.server);
  if (record.sandboxd && record.sandboxd->alive()) {
    net::io_context loop(1);
    run_until_done(loop, remove_sandboxes(directory / "run" / "sandboxd.sock"));
    stop_daemon(*record.sandboxd);
  }
  remove_cgroups(record.cgroup_parent);
  run_quietly({"nft", "delete", "table", "inet", record.table});
  if (release_network(directory, record.network)) {
    run_quietly({"ip", "route", "del", subnet_of(record.network)});
    run_quietly({"ip", "address", "del", gateway_address_of(record.network) + "/32", "dev", "lo"});
  }
  std::error_code failed;
  for (const fs::path& each : list_directory(directory)) {
    if (each.filename() == "service.json") continue;
    fs::remove_all(each, failed);
    if (failed) return fail(Code::Internal, "remove " + each.string() + ": " + failed.message());
  }
  fs::remove_all(directory, failed);
  if (failed) return fail(Code::Internal, "remove " + directory.string() + ": " + failed.message());
  return {};
}

}  // namespace osb::cli
