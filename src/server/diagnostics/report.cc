#include "server/diagnostics/report.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "base/mask_secrets.h"
#include "base/ports.h"
#include "base/quantity.h"
#include "base/text.h"

namespace osb::server {
namespace {

constexpr std::string_view kRule = "------------------------------------------------------------\n";
constexpr std::string_view kMasked = "***";
constexpr double kMebibyte = 1024.0 * 1024.0;

// A value stays on its line: control characters become blanks.
std::string one_line(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(out, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return out;
}

void line(std::string& out, std::string_view label, std::string_view value) {
  out += fmt::format("{:<14}{}\n", fmt::format("{}:", label), one_line(value));
}

void item(std::string& out, std::string_view label, std::string_view value) {
  out += fmt::format("  {:<14}{}\n", fmt::format("{}:", label), one_line(value));
}

bool sounds_secret(std::string_view name) {
  const std::string spelled = upper(name);
  constexpr std::array kWords = {"SECRET", "TOKEN", "PASSWORD", "PASSWD", "KEY", "CREDENTIAL"};
  return std::ranges::any_of(kWords, [&](const char* word) { return spelled.find(word) != std::string::npos; });
}

std::string shown(const std::string& name, const std::string& value) {
  if (sounds_secret(name)) return std::string(kMasked);
  return mask_secrets(value);  // a password in a URL
}

bool out_of_memory(const DiagnosticSubject& subject) {
  return subject.record.status.reason == "OUT_OF_MEMORY" ||
         (subject.instance != nullptr && subject.instance->reason == "OUT_OF_MEMORY") ||
         (subject.use && subject.use->oom_kills > 0);
}

std::string mebibytes(std::uint64_t bytes) { return fmt::format("{:.0f} MiB", static_cast<double>(bytes) / kMebibyte); }

// Limits as numbers that compare; values that only another backend can read stay as they were written.
std::string cores(const std::string& text) {
  const auto billionths = parse_docker_cpu(text);
  return billionths ? fmt::format("{:.2f} cores", static_cast<double>(*billionths) / 1e9) : text;
}

std::string memory_size(const std::string& text) {
  const auto bytes = parse_docker_memory(text);
  return bytes ? mebibytes(*bytes) : text;
}

const std::string* limit_of(const SandboxRecord& record, const char* name) {
  if (!record.spec->resource_limits) return nullptr;
  const auto found = record.spec->resource_limits->find(name);
  return found == record.spec->resource_limits->end() ? nullptr : &found->second;
}

std::optional<Timestamp> time_of(const std::vector<SandboxEvent>& events, std::string_view state) {
  for (const SandboxEvent& event : events) {
    if (event.state == state) return event.at;
  }
  return std::nullopt;
}

// After a restart the history is empty, and the record tells the latest transition.
std::vector<SandboxEvent> known_events(const DiagnosticSubject& subject) {
  if (!subject.events.empty()) return subject.events;
  const api::Status& status = subject.record.status;
  return {{status.last_transition_at.value_or(subject.record.created_at), status.state, status.reason, status.message}};
}

std::optional<Timestamp> started(const DiagnosticSubject& subject) {
  return time_of(known_events(subject), api::state::kRunning);
}

std::optional<Timestamp> finished(const DiagnosticSubject& subject) {
  if (!subject.record.has_ended()) return std::nullopt;
  if (subject.instance != nullptr && subject.instance->ended_at) return subject.instance->ended_at;
  return subject.record.status.last_transition_at;
}

void append_resources(std::string& out, const DiagnosticSubject& subject) {
  out += "\nResources\n";
  const std::string* cpu = limit_of(subject.record, "cpu");
  const std::string* memory = limit_of(subject.record, "memory");
  item(out, "CPU limit", cpu == nullptr ? "none" : cores(*cpu));
  item(out, "Memory limit", memory == nullptr ? "none" : memory_size(*memory));
  if (!subject.use) return;
  item(out, "CPU used", fmt::format("{:.2f} s", static_cast<double>(subject.use->cpu_usec) / 1e6));
  item(out, "Memory used",
       fmt::format("{} (peak {})", mebibytes(subject.use->memory_bytes), mebibytes(subject.use->memory_peak_bytes)));
  item(out, "Disk written", mebibytes(subject.use->disk_bytes));
  item(out, "PIDs", fmt::format("{}", subject.use->pids));
}

void append_network(std::string& out, const DiagnosticSubject& subject) {
  const std::string address = subject.instance == nullptr ? "" : subject.instance->address;
  out += "\nNetwork\n";
  item(out, "sandbox", address.empty() ? "none" : address);
  out += "\nPorts\n";
  out += fmt::format("  {}/tcp -> {}\n", kExecdPort,
                     address.empty() ? "not bound" : fmt::format("{}:{}", address, kExecdPort));
}

}  // namespace

std::string inspect_text(const DiagnosticSubject& subject) {
  const SandboxRecord& record = subject.record;
  std::string out;
  line(out, "ID", record.id.substr(0, 12));
  line(out, "Name", record.id);
  line(out, "Image", record.spec->image ? record.spec->image->uri : "snapshot " + record.spec->snapshot_id);
  line(out, "Entrypoint", mask_secrets(joined(record.spec->entrypoint, " ")));
  // Its rules can be changed: the policy API knows them.
  if (!record.egress_token.empty()) line(out, "Policy", "enforced; 'osb egress get' and 'osb egress log' show it");
  line(out, "Status", record.status.state);
  line(out, "Reason", record.status.reason);
  line(out, "Running", record.status.state == api::state::kRunning ? "true" : "false");
  line(out, "Paused", record.status.state == api::state::kPaused ? "true" : "false");
  line(out, "OOM killed", out_of_memory(subject) ? "true" : "false");
  const auto code = subject.instance == nullptr ? std::nullopt : subject.instance->exit_code;
  line(out, "Exit code", record.has_ended() && code ? std::to_string(*code) : "-");
  const auto when = [](std::optional<Timestamp> moment) { return moment ? format_timestamp(*moment) : "-"; };
  line(out, "Created", format_timestamp(record.created_at));
  line(out, "Started", when(started(subject)));
  line(out, "Finished", when(finished(subject)));
  line(out, "Expires", record.expires_at ? format_timestamp(*record.expires_at) : "never");
  line(out, "Error", record.status.state == api::state::kFailed ? mask_secrets(record.status.message) : "-");
  append_resources(out, subject);
  append_network(out, subject);
  out += "\nLabels\n";
  if (record.metadata) {
    for (const auto& [name, value] : *record.metadata) out += fmt::format("  {}={}\n", one_line(name), one_line(value));
  }
  out += "\nEnvironment\n";
  for (const auto& [name, value] : record.spec->env) {
    out += fmt::format("  {}={}\n", one_line(name), one_line(shown(name, value)));
  }
  return out;
}

std::string event_lines(const DiagnosticSubject& subject, std::size_t limit, bool& truncated) {
  const std::vector<SandboxEvent> events = known_events(subject);
  std::vector<std::string> lines;
  // The first one kept may be any: only one that is the creation itself makes this line superfluous.
  if (events.front().at != subject.record.created_at) {
    lines.push_back(format_timestamp(subject.record.created_at) + " created");
  }
  for (const SandboxEvent& event : events) {
    std::string text = format_timestamp(event.at) + " " + event.state;
    if (!event.reason.empty()) text += " " + event.reason;
    if (!event.message.empty()) text += ": " + mask_secrets(event.message);
    lines.push_back(one_line(text));
  }
  truncated = lines.size() > limit;
  std::string out;
  for (std::size_t i = truncated ? lines.size() - limit : 0; i < lines.size(); ++i) out += lines[i] + "\n";
  return out;
}

std::string events_text(const DiagnosticSubject& subject, std::size_t limit) {
  const SandboxRecord& record = subject.record;
  std::string out;
  line(out, "Sandbox", record.id);
  line(out, "Status", record.status.state);
  line(out, "Created", format_timestamp(record.created_at));
  if (const auto moment = started(subject)) line(out, "Started", format_timestamp(*moment));
  if (const auto moment = finished(subject)) line(out, "Finished", format_timestamp(*moment));
  std::vector<std::string> notable;
  if (out_of_memory(subject)) notable.push_back("killed, out of memory");
  const auto code = subject.instance == nullptr ? std::nullopt : subject.instance->exit_code;
  if (record.has_ended() && code && *code != 0) notable.push_back("ended with exit code " + std::to_string(*code));
  if (record.status.state == api::state::kFailed && !record.status.message.empty()) {
    notable.push_back("error: " + one_line(mask_secrets(record.status.message)));
  }
  const std::vector<SandboxEvent>& events = subject.events;
  for (const SandboxEvent& event : events) {
    // Being created and running is what the lines above tell.
    if (event.state == api::state::kPending || (event.state == api::state::kRunning && event.at == started(subject))) {
      continue;
    }
    std::string text = format_timestamp(event.at) + " " + event.state;
    if (!event.reason.empty()) text += " (" + event.reason + ")";
    notable.push_back(one_line(text));
  }
  const std::size_t skip = notable.size() > limit ? notable.size() - limit : 0;
  for (std::size_t i = skip; i < notable.size(); ++i) out += "Event: " + notable[i] + "\n";
  if (notable.empty()) out += std::string(kNoEvents) + "\n";
  return out;
}

std::string summary_text(std::string_view id, std::string_view inspect, std::string_view events,
                         std::string_view logs) {
  std::string out = fmt::format("{}Sandbox {}\n{}", kRule, id, kRule);
  const auto section = [&](std::string_view name, std::string_view text, bool last) {
    out += fmt::format("\n{}\n\n{}", name, text);
    if (!text.ends_with('\n')) out += '\n';
    if (!last) out += fmt::format("\n{}", kRule);
  };
  section("INSPECT", inspect, false);
  section("EVENTS", events, false);
  section("LOGS", logs, true);
  return out;
}

std::string last_lines(std::string_view text, std::size_t lines, bool clipped, bool& cut) {
  cut = clipped;
  if (clipped) {
    const std::size_t end = text.find('\n');
    if (end != std::string_view::npos) text.remove_prefix(end + 1);
  }
  std::size_t begin = text.size();
  if (begin > 0 && text[begin - 1] == '\n') --begin;  // the end of the last line is not another one
  for (; lines > 0; --lines) {
    const std::size_t newline = begin == 0 ? std::string_view::npos : text.rfind('\n', begin - 1);
    if (newline == std::string_view::npos) return std::string(text);
    begin = newline;
  }
  cut = true;
  return std::string(text.substr(begin + 1));
}

std::string lines_since(std::string_view text, Timestamp since) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const auto time = parse_timestamp(line.substr(0, line.find(' ')));
    if (time && *time >= since) return std::string(text.substr(begin));
    begin = end + 1;
  }
  return "";
}

}  // namespace osb::server
