#include <cstring>

#include "client.h"
#include "connection.h"
#include "workers.h"

namespace osb::bench {
namespace {

constexpr const char* kJson = "Content-Type: application/json\r\n";

// One file as a tar archive, which is how an engine takes files.
std::string tar_of(const std::string& name, std::string_view data) {
  char header[512] = {};
  std::snprintf(header, 100, "%s", name.c_str());
  std::snprintf(header + 100, 8, "%07o", 0644u);
  std::snprintf(header + 108, 8, "%07o", 0u);
  std::snprintf(header + 116, 8, "%07o", 0u);
  std::snprintf(header + 124, 12, "%011zo", data.size());
  std::snprintf(header + 136, 12, "%011o", 0u);
  std::memset(header + 148, ' ', 8);
  header[156] = '0';
  std::memcpy(header + 257, "ustar\00000", 8);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(header + 148, 8, "%06o", sum);
  std::string out(header, sizeof header);
  out.append(data);
  out.append((512 - data.size() % 512) % 512 + 1024, '\0');
  return out;
}

class EngineClient final : public Client {
 public:
  EngineClient(std::string socket, std::string image) : socket_(std::move(socket)), image_(std::move(image)) {}

  void prepare() override {
    api_ = std::make_unique<Connection>(socket_);
    attached_ = std::make_unique<Connection>(socket_);
  }

  std::string create(Until until, Clocks& clocks) override { return make(image_, until, clocks); }

  void remove(const std::string& id) override {
    Connection(socket_).exchange("DELETE", "/containers/" + id + "?force=1", "", "", 204);
  }

  void command(const std::string& id) override {
    execute(id, R"(["true"])", [](std::string_view) { return false; });
  }

  double first_byte(const std::string& id) override {
    const auto start = Clock::now();
    double first = -1;
    execute(id, R"(["echo","first"])", [&](std::string_view piece) {
      if (first < 0 && piece.find("first") != std::string_view::npos) first = seconds_since(start) * 1e3;
      return false;
    });
    if (first < 0) throw std::runtime_error("echo first: no output");
    return first;
  }

  void stream(const std::string& id, unsigned mib) override {
    std::uint64_t bytes = 0;
    execute(id, R"(["sh","-c",")" + print_lines(mib) + R"("])", [&](std::string_view piece) {
      bytes += piece.size();
      return false;
    });
    if (bytes < (std::uint64_t{mib} << 20)) throw std::runtime_error("the stream broke off");
  }

  void upload(const std::string& id, std::string_view data) override {
    api_->exchange("PUT", "/containers/" + id + "/archive?path=/tmp", "Content-Type: application/x-tar\r\n",
                   tar_of("data", data), 200);
  }

  void download(const std::string& id, std::size_t size) override {
    std::size_t got = 0;
    api_->send("GET", "/containers/" + id + "/archive?path=/tmp/data", "", "");
    api_->receive([&](std::string_view piece) {
      got += piece.size();
      return false;
    });
    if (got < size) throw std::runtime_error("the download broke off");
  }

  void get(const std::string& id) override { api_->exchange("GET", "/containers/" + id + "/json", "", "", 200); }
  void pause(const std::string& id) override { api_->exchange("POST", "/containers/" + id + "/pause", "", "", 204); }
  void resume(const std::string& id) override { api_->exchange("POST", "/containers/" + id + "/unpause", "", "", 204); }

  std::string snapshot(const std::string& id) override {
    const std::string name = new_name();
    api_->exchange("POST", "/commit?container=" + id + "&repo=" + name + "&tag=1&pause=1", kJson, "{}", 201);
    return name + ":1";
  }
  std::string restore(const std::string& snapshot, Clocks& clocks) override {
    return make(snapshot, Until::Output, clocks);
  }
  void remove_snapshot(const std::string& snapshot) override {
    Connection(socket_).exchange("DELETE", "/images/" + snapshot + "?force=1", "", "", 200);
  }

 private:
  std::string make(const std::string& image, Until until, Clocks& clocks) {
    const auto start = Clock::now();
    const std::string command = until == Until::Answered
                                    ? R"([")" + std::string(kExecd) + R"(","--port","44772"])"
                                    : R"(["sh","-c","echo first; exec sleep )" + std::string(kStay) + R"("])";
    const std::string body = R"({"Image":")" + image + R"(","Cmd":)" + command + R"(,"Labels":{"bench":"1"}})";
    const std::string id = field(api_->exchange("POST", "/containers/create", kJson, body, 201), "Id");
    try {
      // Its output is asked for before it starts, and what came earlier comes too.
      if (until == Until::Output) {
        attached_->send("POST", "/containers/" + id + "/attach?logs=1&stream=1&stdout=1", "", "");
      }
      api_->exchange("POST", "/containers/" + id + "/start", "", "", 204);
      clocks.started = clocks.running = seconds_since(start) * 1e3;
      if (until == Until::Output) {
        bool seen = false;
        attached_->receive(
            [&](std::string_view piece) { return seen = piece.find("first") != std::string_view::npos; });
        if (!seen) throw std::runtime_error("the container wrote nothing");
        clocks.output = seconds_since(start) * 1e3;
      }
      if (until == Until::Answered) {
        wait_for_execd(field(api_->exchange("GET", "/containers/" + id + "/json", "", "", 200), "IPAddress"), start);
        clocks.answered = seconds_since(start) * 1e3;
      }
      return id;
    } catch (...) {
      remove(id);
      throw;
    }
  }

  // The engine has started it, which says nothing of its socket.
  static void wait_for_execd(const std::string& address, Clock::time_point start) {
    for (;; space_out(1)) {
      try {
        Connection(address, 44772).exchange("GET", "/ping", "", "", 200);
        return;
      } catch (const std::exception&) {
        if (seconds_since(start) > 20) throw;
      }
    }
  }

  // An exec's output ends with its connection.
  template <typename OnPiece>
  void execute(const std::string& id, const std::string& command, OnPiece on_piece) {
    const std::string made = api_->exchange("POST", "/containers/" + id + "/exec", kJson,
                                            R"({"AttachStdout":true,"AttachStderr":true,"Cmd":)" + command + "}", 201);
    Connection stream(socket_);
    stream.send("POST", "/exec/" + field(made, "Id") + "/start", kJson, R"({"Detach":false,"Tty":false})");
    if (const int status = stream.receive(on_piece); status != 200) {
      throw std::runtime_error("exec: " + std::to_string(status));
    }
  }

  const std::string socket_, image_;
  std::unique_ptr<Connection> api_, attached_;
};

}  // namespace

std::unique_ptr<Client> engine_client(std::string socket, std::string image) {
  return std::make_unique<EngineClient>(std::move(socket), std::move(image));
}

}  // namespace osb::bench
