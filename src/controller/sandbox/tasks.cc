#include "controller/sandbox/tasks.h"

#include <algorithm>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "base/parse_number.h"
#include "controller/queue/lanes.h"
#include "kubernetes/patch.h"

namespace osb::controller {
namespace {

constexpr std::chrono::milliseconds kTimeLimit{3'000};
constexpr std::chrono::milliseconds kPollLimit{60'000};  // executors answer after 25 s
constexpr std::size_t kMaxAnswer = 1 << 20, kPodsAtOnce = 10;

std::string origin_of(const std::string& address) {
  return address.contains(':') ? "[" + address + "]:5758" : address + ":5758";
}

}  // namespace

net::awaitable<Result<TaskList>> HttpTaskExecutors::call(std::string address, http::ClientRequest request,
                                                         std::chrono::milliseconds limit) {
  request.timeouts.connect = kTimeLimit;
  request.timeouts.head = limit;
  request.timeouts.body_stall = kTimeLimit;
  auto answer = co_await client_.send(origin_of(address), std::move(request));
  if (!answer) co_return Failure(answer.error());
  if (answer->status != 200) {
    co_return fail(Code::Unavailable, "task-executor at " + address + " answers " + std::to_string(answer->status));
  }
  TaskList out;
  out.version = parse_number<std::uint64_t>(answer->headers.get(api::kTasksVersionHeader));
  const auto body = co_await answer->body->read_all(kMaxAnswer);
  if (!body) co_return Failure(body.error());
  const auto value = api::parse_json(*body);
  if (!value) co_return with_context("task-executor at " + address, value.error());
  auto tasks = api::parse_tasks(*value);
  if (!tasks) co_return Failure(tasks.error());
  out.tasks = std::move(*tasks);
  co_return out;
}

net::awaitable<Result<TaskList>> HttpTaskExecutors::get(std::string address) {
  http::ClientRequest request;
  request.target = "/getTasks";
  co_return co_await call(std::move(address), std::move(request), kTimeLimit);
}

net::awaitable<Result<TaskList>> HttpTaskExecutors::set(std::string address, std::vector<api::Task> tasks) {
  http::ClientRequest request;
  request.method = "POST";
  request.target = "/setTasks";
  request.headers.set("Content-Type", "application/json");
  request.body = json::serialize(api::to_json(tasks));
  co_return co_await call(std::move(address), std::move(request), kTimeLimit);
}

net::awaitable<Result<TaskList>> HttpTaskExecutors::wait_change(std::string address, std::uint64_t version) {
  http::ClientRequest request;
  request.target = "/getTasks?after=" + std::to_string(version);
  co_return co_await call(std::move(address), std::move(request), kPollLimit);
}

Result<api::Task> task_of(const BatchSandbox& sandbox, int index) {
  const json::value* wanted = kubernetes::find(*sandbox.object, {"spec", "taskTemplate"});
  if (wanted == nullptr || !wanted->is_object())
    return fail(Code::InvalidRequest, "spec.taskTemplate: expected an object");
  json::object whole = wanted->get_object();
  const json::value* base_limit = kubernetes::find(wanted->get_object(), {"spec", "timeoutSeconds"});
  const json::value* patches = kubernetes::find(*sandbox.object, {"spec", "shardTaskPatches"});
  if (patches != nullptr && patches->is_array() && static_cast<std::size_t>(index) < patches->get_array().size()) {
    const std::string at = "spec.shardTaskPatches[" + std::to_string(index) + "]";
    const json::value& patch = patches->get_array()[static_cast<std::size_t>(index)];
    if (!patch.is_null() && !patch.is_object()) return fail(Code::InvalidRequest, at + ": expected an object");
    if (patch.is_object()) {
      if (auto done = kubernetes::strategic_merge_patch(whole, patch.get_object()); !done) {
        return with_context(at, done.error());
      }
    }
  }
  const json::value* process = kubernetes::find(whole, {"spec", "process"});
  if (process == nullptr) return fail(Code::InvalidRequest, "spec.taskTemplate.spec.process: missing");
  auto parsed = api::parse_task_process(*process);
  if (!parsed) return with_context("spec.taskTemplate.spec.process", parsed.error());
  if (parsed->command.empty()) {
    return fail(Code::InvalidRequest, "spec.taskTemplate.spec.process.command: expected at least one word");
  }
  if (base_limit != nullptr && base_limit->is_int64()) parsed->timeout_seconds = base_limit->get_int64();
  api::Task task;
  task.name = sandbox.key.name + "-" + std::to_string(index);
  task.process = std::move(*parsed);
  return task;
}

net::awaitable<TaskRound> run_tasks(TaskExecutors& executors, const BatchSandbox& sandbox,
                                    const std::vector<PodFacts>& pods, const FollowTasks& follow) {
  TaskRound round;
  int placed = 0;
  co_await for_each_at_once<PodFacts>(pods, kPodsAtOnce, [&](const PodFacts& pod) -> net::awaitable<void> {
    if (pod.ip.empty() || pod.deleting || pod.index < 0 || pod.index >= sandbox.replicas) co_return;
    ++placed;
    const auto task = task_of(sandbox, pod.index);
    if (!task) {
      round.problem = task.error();
      co_return;
    }
    const auto find = [&](const TaskList& list) { return std::ranges::find(list.tasks, task->name, &api::Task::name); };
    auto known = co_await executors.get(pod.ip);
    if (known && find(*known) == known->tasks.end()) known = co_await executors.set(pod.ip, {*task});
    if (!known) co_return follow(pod.ip, known);  // a pod that does not answer counts nowhere
    const auto found = find(*known);
    const bool there = found != known->tasks.end();
    if (there && std::holds_alternative<api::TaskTerminated>(found->status)) {
      const bool good = std::get<api::TaskTerminated>(found->status).exit_code == 0;
      ++(good ? round.counts.succeeded : round.counts.failed);
      round.finished.push_back(pod.name);
      co_return;
    }
    follow(pod.ip, known);
    ++(there && std::holds_alternative<api::TaskRunning>(found->status) ? round.counts.running : round.counts.unknown);
  });
  round.counts.pending = std::max(0, sandbox.replicas - placed);
  co_return round;
}

net::awaitable<std::vector<std::string>> stop_tasks(TaskExecutors& executors, const std::vector<PodFacts>& pods,
                                                    const FollowTasks& follow) {
  std::vector<std::string> stopped;
  co_await for_each_at_once<PodFacts>(pods, kPodsAtOnce, [&](const PodFacts& pod) -> net::awaitable<void> {
    if (!pod.ip.empty() && !pod.finished()) {
      const auto left = co_await executors.set(pod.ip, {});
      if (left && !left->tasks.empty()) co_return follow(pod.ip, left);
    }
    stopped.push_back(pod.name);
  });
  co_return stopped;
}

}  // namespace osb::controller
