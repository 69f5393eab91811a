#include <ctime>

#include "client.h"
#include "connection.h"
#include "workers.h"

namespace osb::bench {
namespace {

constexpr const char* kJson = "Content-Type: application/json\r\n";

class LifecycleClient final : public Client {
 public:
  LifecycleClient(std::uint16_t port, std::string key, std::string image, StartedBy started)
      : port_(port), key_(std::move(key)), image_(std::move(image)), started_(std::move(started)) {}

  // New ones each time: some servers close what has been idle for a few seconds.
  void prepare() override {
    api_ = connect();
    proxied_ = connect();
  }

  std::string create(Until until, Clocks& clocks) override {
    return make(R"("image":{"uri":")" + image_ + R"("})", until, clocks);
  }

  void remove(const std::string& id) override {
    connect()->exchange("DELETE", "/v1/sandboxes/" + id, headers(), "", 204);
  }

  void command(const std::string& id) override {
    const std::string text = run(id, "true");
    if (text.find("execution_complete") == std::string::npos) throw std::runtime_error("true: " + text);
  }

  double first_byte(const std::string& id) override {
    const auto start = Clock::now();
    double first = -1;
    std::string text;
    send_command(id, "echo first");
    proxied_->receive([&](std::string_view piece) {
      text += piece;
      if (first < 0 && text.find(R"("text":"first)") != std::string::npos) first = seconds_since(start) * 1e3;
      return false;
    });
    if (first < 0) throw std::runtime_error("echo first: " + text);
    return first;
  }

  void stream(const std::string& id, unsigned mib) override {
    std::uint64_t bytes = 0;
    std::string tail;
    send_command(id, print_lines(mib));
    proxied_->receive([&](std::string_view piece) {
      bytes += piece.size();
      tail.append(piece);
      if (tail.size() > 4096) tail.erase(0, tail.size() - 2048);
      return false;
    });
    if (bytes < (std::uint64_t{mib} << 20) || tail.find("execution_complete") == std::string::npos) {
      throw std::runtime_error("the stream broke off after " + std::to_string(bytes) + " bytes");
    }
  }

  void upload(const std::string& id, std::string_view data) override {
    std::string body =
        "--bench\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n"
        "Content-Type: application/json\r\n\r\n{\"path\":\"/tmp/data\",\"mode\":644}\r\n"
        "--bench\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n"
        "Content-Type: application/octet-stream\r\n\r\n";
    body.append(data).append("\r\n--bench--\r\n");
    proxied_->exchange("POST", proxy(id, "/files/upload"),
                       token_of(id) + "Content-Type: multipart/form-data; boundary=bench\r\n", body, 200);
  }

  void download(const std::string& id, std::size_t size) override {
    std::size_t got = 0;
    proxied_->send("GET", proxy(id, "/files/download?path=/tmp/data"), token_of(id), "");
    proxied_->receive([&](std::string_view piece) {
      got += piece.size();
      return false;
    });
    if (got != size) throw std::runtime_error(std::to_string(got) + " bytes of " + std::to_string(size) + " came");
  }

  void get(const std::string& id) override { api_->exchange("GET", "/v1/sandboxes/" + id, headers(), "", 200); }

  void pause(const std::string& id) override { ask(id, "pause", "Paused"); }
  void resume(const std::string& id) override { ask(id, "resume", "Running"); }

  std::string snapshot(const std::string& id) override {
    const std::string made =
        api_->exchange("POST", "/v1/sandboxes/" + id + "/snapshots", headers(kJson), R"({"name":"bench"})", 202);
    const std::string snapshot = field(made, "id");
    wait_for("/v1/snapshots/" + snapshot, "Ready", 1);
    return snapshot;
  }
  std::string restore(const std::string& snapshot, Clocks& clocks) override {
    return make(R"("snapshotId":")" + snapshot + R"(")", Until::Output, clocks);
  }
  void remove_snapshot(const std::string& snapshot) override {
    connect()->exchange("DELETE", "/v1/snapshots/" + snapshot, headers(), "", 204);
  }

 private:
  std::unique_ptr<Connection> connect() const { return std::make_unique<Connection>("127.0.0.1", port_); }
  std::string headers(std::string_view more = {}) const {
    return "OPEN-SANDBOX-API-KEY: " + key_ + "\r\n" + std::string(more);
  }
  static std::string proxy(const std::string& id, const std::string& rest) {
    return "/sandboxes/" + id + "/proxy/44772" + rest;
  }

  std::string make(const std::string& source, Until until, Clocks& clocks) {
    const double wall = wall_ms();
    const auto start = Clock::now();
    // The original answers when the container has been started; ours is asked to wait until the sandbox is Running.
    const std::string made = api_->exchange(
        "POST", "/v1/sandboxes", headers(std::string(kJson) + "Prefer: wait=110\r\n"),
        "{" + source + R"(,"entrypoint":["sleep",")" + kStay + R"("],"resourceLimits":{},"timeout":3600})", 202);
    const std::string id = field(made, "id");
    try {
      if (field(made, "state") != "Running") throw std::runtime_error("created, but " + made);
      clocks.running = seconds_since(start) * 1e3;
      if (until != Until::Running) first_output(id, start, clocks);
      if (!started_.socket.empty()) clocks.started = parse_wall_ms(started_at(id)) - wall;
      return id;
    } catch (...) {
      remove(id);
      throw;
    }
  }

  std::string started_at(const std::string& id) const {
    Connection below(started_.socket);
    if (started_.kind == StartedBy::Kind::Sandboxd) {
      return field(below.exchange("GET", "/v1/sandboxes/" + id, "", "", 200), "started_at");
    }
    return field(below.exchange("GET", "/containers/sandbox-" + id + "/json", "", "", 200), "StartedAt");
  }

  void first_output(const std::string& id, Clock::time_point start, Clocks& clocks) {
    if (seconds_since(start) > 2) prepare();  // servers close what has been idle for long
    token_of(id);
    // Running says that execd answers here and that the container was started there.
    proxied_->send("GET", proxy(id, "/ping"), token_, "");
    while (proxied_->receive([](std::string_view) { return false; }) != 200) {
      if (seconds_since(start) > 150) throw std::runtime_error("execd does not answer");
      space_out(1);
      proxied_->send("GET", proxy(id, "/ping"), token_, "");
    }
    clocks.answered = seconds_since(start) * 1e3;
    const auto asked = Clock::now();
    clocks.output = std::chrono::duration<double>(asked - start).count() * 1e3 + first_byte(id);
  }

  // The header that execd asks for, if it does.
  const std::string& token_of(const std::string& id) {
    if (id_ == id) return token_;
    const std::string answer = api_->exchange("GET", "/v1/sandboxes/" + id + "/endpoints/44772", headers(), "", 200);
    const bool has = answer.find("X-EXECD-ACCESS-TOKEN") != std::string::npos;
    token_ = has ? "X-EXECD-ACCESS-TOKEN: " + field(answer, "X-EXECD-ACCESS-TOKEN") + "\r\n" : "";
    id_ = id;
    return token_;
  }

  void send_command(const std::string& id, const std::string& command) {
    proxied_->send("POST", proxy(id, "/command"), token_of(id) + kJson, R"({"command":")" + command + R"("})");
  }
  std::string run(const std::string& id, const std::string& command) {
    std::string text;
    send_command(id, command);
    const int status = proxied_->receive([&](std::string_view piece) {
      text += piece;
      return false;
    });
    if (status != 200) throw std::runtime_error(command + ": " + std::to_string(status) + " " + text);
    return text;
  }

  void ask(const std::string& id, const std::string& what, const std::string& state) {
    api_->exchange("POST", "/v1/sandboxes/" + id + "/" + what, headers(), "", 202);
    wait_for("/v1/sandboxes/" + id, state, 0);
  }
  // Asks until it is in that state, so many milliseconds apart.
  void wait_for(const std::string& target, const std::string& state, unsigned gap) {
    const auto start = Clock::now();
    for (std::string seen; (seen = field(api_->exchange("GET", target, headers(), "", 200), "state")) != state;) {
      if (seconds_since(start) > 60 || seen == "Failed") throw std::runtime_error(target + " is " + seen);
      if (gap > 0) space_out(gap);
    }
  }

  const std::uint16_t port_;
  const std::string key_, image_;
  const StartedBy started_;
  std::unique_ptr<Connection> api_, proxied_;
  std::string id_, token_;  // of the sandbox that was asked last
};

}  // namespace

std::unique_ptr<Client> lifecycle_client(std::uint16_t port, std::string key, std::string image, StartedBy started) {
  return std::make_unique<LifecycleClient>(port, std::move(key), std::move(image), std::move(started));
}

double wall_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double parse_wall_ms(const std::string& text) {
  tm parts{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!rest) throw std::runtime_error("no time: " + text);
  const double fraction = *rest == '.' ? std::strtod(rest, nullptr) : 0;
  return (static_cast<double>(::timegm(&parts)) + fraction) * 1e3;
}

}  // namespace osb::bench
