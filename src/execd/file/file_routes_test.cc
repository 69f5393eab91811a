#include "execd/file/file_routes.h"

#include <deque>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/url.h"
#include "support/await.h"
#include "support/temp_dir.h"

namespace osb::execd {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// A body of given pieces; optionally the peer leaves after them.
class PiecesBody : public http::BodySource {
 public:
  explicit PiecesBody(std::deque<std::string> pieces, bool cut = false) : pieces_(std::move(pieces)), cut_(cut) {}
  net::awaitable<Result<std::string_view>> read() override {
    if (pieces_.empty()) {
      if (cut_) co_return fail(Code::Unavailable, "the peer left");
      co_return std::string_view();
    }
    current_ = std::move(pieces_.front());
    pieces_.pop_front();
    co_return std::string_view(current_);
  }
  std::optional<std::uint64_t> length() const override { return std::nullopt; }

 private:
  std::deque<std::string> pieces_;
  std::string current_;
  bool cut_;
};

class CollectingWriter : public http::BodyWriter {
 public:
  using http::BodyWriter::write;
  net::awaitable<Result<void>> write(std::span<const std::string_view> pieces) override {
    for (const std::string_view piece : pieces) {
      all += piece;
      largest = std::max(largest, piece.size());
    }
    co_return Result<void>{};
  }
  net::awaitable<Result<void>> flush() override { co_return Result<void>{}; }
  net::awaitable<void> peer_closed() override { co_return; }
  std::string all;
  std::size_t largest = 0;
};

struct Answer {
  int status = 0;
  http::Headers headers;
  std::string body;
  bool streamed = false;
  bool truncated = false;
  std::size_t largest_piece = 0;
};

class FileRoutes : public ::testing::Test {
 protected:
  FileRoutes() { add_file_routes(router_, context_); }

  Answer call(std::string method, std::string target, std::deque<std::string> body = {}, http::Headers headers = {},
              bool cut = false) {
    http::Request request;
    request.method = std::move(method);
    request.target = std::move(target);
    request.headers = std::move(headers);
    request.body = std::make_shared<PiecesBody>(std::move(body), cut);
    return testing::await(run(request));
  }
  Answer get(std::string target, http::Headers headers = {}) {
    return call("GET", std::move(target), {}, std::move(headers));
  }
  Answer post(std::string target, std::string body) { return call("POST", std::move(target), {std::move(body)}); }

  std::string at(const std::string& name) const { return (dir_ / name).string(); }
  std::string query(const std::string& name) const { return "path=" + http::percent_encode(at(name), "/"); }
  void write(const std::string& name, std::string_view content) {
    std::ofstream(dir_ / name, std::ios::binary) << content;
  }
  std::string content(const std::string& name) const {
    std::ifstream in(dir_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(dir_.path()), {}));
  }
  unsigned mode(const std::string& name) const {
    struct stat st{};
    EXPECT_EQ(::stat(at(name).c_str(), &st), 0);
    return st.st_mode & 07777;
  }

  struct Part {
    std::string name, content;
  };
  static constexpr const char* kMultipart = "multipart/form-data; boundary=XX";
  static std::string multipart(const std::vector<Part>& parts) {
    std::string out;
    for (const Part& part : parts) {
      out += "--XX\r\nContent-Disposition: form-data; name=\"" + part.name + "\"; filename=\"x\"\r\n\r\n";
      out += part.content + "\r\n";
    }
    return out + "--XX--\r\n";
  }
  Answer upload(const std::vector<Part>& parts) {
    return call("POST", "/files/upload", {multipart(parts)}, {{"Content-Type", kMultipart}});
  }

  testing::TempDir dir_;

 private:
  net::awaitable<Answer> run(http::Request& request) {
    http::Response response = co_await router_.dispatch(request);
    Answer answer;
    answer.status = response.status;
    answer.headers = std::move(response.headers);
    if (auto* text = std::get_if<std::string>(&response.body)) {
      answer.body = std::move(*text);
    } else if (auto* file = std::get_if<http::FileBody>(&response.body)) {
      answer.body.resize(file->length);
      EXPECT_EQ(::pread(file->file.get(), answer.body.data(), file->length, static_cast<off_t>(file->offset)),
                static_cast<ssize_t>(file->length));
    } else if (auto* stream = std::get_if<http::StreamBody>(&response.body)) {
      CollectingWriter writer;
      answer.streamed = true;
      answer.truncated = !(co_await stream->produce(writer));
      answer.body = std::move(writer.all);
      answer.largest_piece = writer.largest;
    }
    co_return answer;
  }

  BlockingPool pool_{2};
  OwnerDatabase owners_;
  Environment env_{{"HOME", dir_.path().string()}, {"WORK", dir_.path().string()}};
  FileContext context_{.pool = pool_, .owners = owners_, .env = env_, .cwd = dir_.path().string()};
  http::Router router_;
};

TEST_F(FileRoutes, InfoIsKeyedByThePathAsGiven) {
  write("f", "12345");
  ::chmod(at("f").c_str(), 0640);
  fs::create_symlink("nowhere", dir_ / "dangling");
  const Answer answer = get("/files/info?path=f&path=~/f&path=$WORK/dangling&path=.");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(answer.body, HasSubstr(R"("f":{"path":")" + at("f") + R"(","type":"file","size":5,)"));
  EXPECT_THAT(answer.body, HasSubstr(R"("~/f":{"path":")" + at("f")));
  EXPECT_THAT(answer.body, HasSubstr(R"("$WORK/dangling":{)"));
  EXPECT_THAT(answer.body, HasSubstr(R"("type":"symlink")"));
  EXPECT_THAT(answer.body, HasSubstr(R"("type":"directory")"));
  EXPECT_THAT(answer.body, HasSubstr(R"("mode":640)"));
  EXPECT_EQ(get("/files/info").body, "{}");
}

TEST_F(FileRoutes, InfoFailsAsAWhole) {
  write("f", "");
  const Answer missing = get("/files/info?path=f&path=none");
  EXPECT_EQ(missing.status, 404);
  EXPECT_THAT(missing.body, HasSubstr("FILE_NOT_FOUND"));
  const std::vector<std::string> impossible = {"$NOPE/x", "a%00b", std::string(5000, 'a'), std::string(300, 'a')};
  for (const std::string& path : impossible) {
    const Answer answer = get("/files/info?path=" + path);
    EXPECT_EQ(answer.status, 500) << path.substr(0, 10);
    EXPECT_THAT(answer.body, HasSubstr("RUNTIME_ERROR"));
  }
}

TEST_F(FileRoutes, NamesThatAreNotUtf8AreReachable) {
  write("a\xff", "bytes");
  EXPECT_EQ(get("/files/download?path=a%FF").body, "bytes");
  const Answer info = get("/files/info?path=a%FF");
  EXPECT_EQ(info.status, 200);
  EXPECT_THAT(info.body, HasSubstr("a\xEF\xBF\xBD"));
  EXPECT_THAT(get("/directories/list?path=.").body, Not(HasSubstr("\xff")));
}

TEST_F(FileRoutes, ListAndSearchAnswerArrays) {
  fs::create_directories(dir_ / "sub");
  write("b.py", "");
  write("sub/a.py", "");
  write("sub/c.txt", "");
  EXPECT_EQ(get("/directories/list?path=.&depth=0").body, "[]");
  EXPECT_THAT(get("/directories/list?path=.").body, Not(HasSubstr("a.py")));
  const std::string deep = get("/directories/list?path=.&depth=9").body;
  EXPECT_LT(deep.find("b.py"), deep.find("/sub\""));
  EXPECT_LT(deep.find("/sub\""), deep.find("a.py"));
  const std::string found = get("/files/search?path=.&pattern=*.py").body;
  EXPECT_THAT(found, HasSubstr("b.py"));
  EXPECT_THAT(found, HasSubstr("a.py"));
  EXPECT_THAT(found, Not(HasSubstr("c.txt")));
  EXPECT_THAT(get("/files/search?path=.").body, Not(HasSubstr("\"directory\"")));
  EXPECT_EQ(get("/files/search?path=.&pattern=../*").body, "[]");
  EXPECT_THAT(get("/files/search?path=b.py&pattern=b*").body, HasSubstr("b.py"));
  EXPECT_EQ(get("/files/search?path=b.py&pattern=c*").body, "[]");
}

TEST_F(FileRoutes, ListAndSearchErrors) {
  write("f", "");
  fs::create_directory_symlink(".", dir_ / "link");
  struct {
    const char* target;
    int status;
    const char* code;
  } rows[] = {
      {"/directories/list", 400, "MISSING_QUERY"},
      {"/directories/list?path=none", 404, "FILE_NOT_FOUND"},
      {"/directories/list?path=f", 400, "INVALID_REQUEST_BODY"},
      {"/directories/list?path=link", 400, "INVALID_REQUEST_BODY"},
      {"/directories/list?path=.&depth=-1", 400, "INVALID_REQUEST_BODY"},
      {"/directories/list?path=.&depth=x", 400, "INVALID_REQUEST_BODY"},
      {"/files/search", 400, "MISSING_QUERY"},
      {"/files/search?path=none", 404, "FILE_NOT_FOUND"},
      {"/files/search?path=.&pattern=%5B", 500, "RUNTIME_ERROR"},
      {"/files/search?path=.&pattern=!x", 500, "RUNTIME_ERROR"},
      {"/files/download", 400, "MISSING_QUERY"},
      {"/files/download?path=none", 404, "FILE_NOT_FOUND"},
      {"/files/download?path=none&offset=0", 404, "FILE_NOT_FOUND"},
      {"/files/download?path=f&offset=0", 400, "INVALID_REQUEST_BODY"},
      {"/files/download?path=f&limit=-1", 400, "INVALID_REQUEST_BODY"},
      {"/files/download?path=f&limit=x", 400, "INVALID_REQUEST_BODY"},
      {"/files/download?path=.", 400, "INVALID_REQUEST_BODY"},
      {"/files/download?path=/dev/zero", 400, "INVALID_REQUEST_BODY"},
      {"/directories/archive", 400, "MISSING_QUERY"},
      {"/directories/archive?path=none", 404, "FILE_NOT_FOUND"},
      {"/directories/archive?path=f", 400, "INVALID_REQUEST_BODY"},
  };
  for (const auto& row : rows) {
    const Answer answer = get(row.target);
    EXPECT_EQ(answer.status, row.status) << row.target << ": " << answer.body;
    EXPECT_THAT(answer.body, HasSubstr(row.code)) << row.target;
    EXPECT_THAT(answer.body, HasSubstr("\"message\":\"")) << row.target;
  }
}

TEST_F(FileRoutes, LongListingsAreStreamedInPieces) {
  fs::create_directory(dir_ / "many");
  // More than a megabyte of JSON from few files: making files is what takes time here.
  const std::string long_name(240, 'n');
  for (int i = 0; i < 3000; ++i) write("many/" + long_name + std::to_string(i), "");
  const Answer answer = get("/directories/list?path=many");
  EXPECT_TRUE(answer.streamed);
  EXPECT_FALSE(answer.truncated);
  EXPECT_LT(answer.largest_piece, 2u << 20);
  EXPECT_EQ(answer.body.front(), '[');
  EXPECT_EQ(answer.body.back(), ']');
  std::size_t count = 0;
  for (std::size_t i = 0; (i = answer.body.find("{\"path\"", i)) != std::string::npos; ++i) ++count;
  EXPECT_EQ(count, 3000u);
}

TEST_F(FileRoutes, DownloadsWholeAndInRanges) {
  for (const std::size_t size : {std::size_t{100}, std::size_t{100'000}}) {
    std::string text;
    for (std::size_t i = 0; text.size() < size; ++i) text += std::to_string(i);
    text.resize(size);
    write("f", text);
    const Answer whole = get("/files/download?path=f");
    EXPECT_EQ(whole.status, 200);
    EXPECT_EQ(whole.body, text);
    EXPECT_EQ(whole.headers.get("Content-Type"), "application/octet-stream");
    EXPECT_EQ(whole.headers.get("Content-Disposition"), "attachment; filename=\"f\"");
    EXPECT_EQ(whole.headers.get("Accept-Ranges"), "bytes");
    const std::string total = std::to_string(size);
    struct {
      const char* range;
      int status;
      std::string body, content_range;
    } rows[] = {
        {"bytes=0-9", 206, text.substr(0, 10), "bytes 0-9/" + total},
        {"bytes=90-", 206, text.substr(90), "bytes 90-" + std::to_string(size - 1) + "/" + total},
        {"bytes=-5", 206, text.substr(size - 5),
         "bytes " + std::to_string(size - 5) + "-" + std::to_string(size - 1) + "/" + total},
        {"bytes=95-999999999", 206, text.substr(95), "bytes 95-" + std::to_string(size - 1) + "/" + total},
        {"bytes=0-1,5-6", 206, text.substr(0, 2), "bytes 0-1/" + total},
        {"bytes=999999-", 416, "", "bytes */" + total},
    };
    for (const auto& row : rows) {
      const Answer answer = get("/files/download?path=f", {{"Range", row.range}});
      EXPECT_EQ(answer.status, row.status) << row.range;
      if (row.status == 206) EXPECT_EQ(answer.body, row.body) << row.range;
      EXPECT_EQ(answer.headers.get("Content-Range"), row.content_range) << row.range;
    }
    for (const char* range : {"bytes=9-1", "chars=1-2", "bytes=x", "bytes="}) {
      const Answer answer = get("/files/download?path=f", {{"Range", range}});
      EXPECT_EQ(answer.status, 416) << range;
      EXPECT_THAT(answer.body, HasSubstr("UNKNOWN")) << range;
    }
  }
}

TEST_F(FileRoutes, DownloadHonoursConditions) {
  write("f", "0123456789");
  const Answer whole = get("/files/download?path=f");
  const std::string tag(whole.headers.get("ETag")), date(whole.headers.get("Last-Modified"));
  EXPECT_EQ(get("/files/download?path=f", {{"If-None-Match", tag}}).status, 304);
  EXPECT_EQ(get("/files/download?path=f", {{"If-Modified-Since", date}}).status, 304);
  EXPECT_EQ(get("/files/download?path=f", {{"If-Match", "\"other\""}}).status, 412);
  EXPECT_EQ(get("/files/download?path=f", {{"If-Range", tag}, {"Range", "bytes=0-1"}}).body, "01");
  EXPECT_EQ(get("/files/download?path=f", {{"If-Range", "\"other\""}, {"Range", "bytes=0-1"}}).body, "0123456789");
}

TEST_F(FileRoutes, DownloadsLines) {
  write("f", "1\r\n2\n3\n4");
  const Answer two = get("/files/download?path=f&offset=2&limit=2");
  EXPECT_EQ(two.body, "2\n3");
  EXPECT_EQ(two.headers.get("Content-Type"), "text/plain; charset=utf-8");
  EXPECT_EQ(get("/files/download?path=f&limit=1").body, "1");
  EXPECT_EQ(get("/files/download?path=f&offset=4").body, "4");
  const Answer behind = get("/files/download?path=f&offset=9");
  EXPECT_EQ(behind.status, 200);
  EXPECT_EQ(behind.body, "");
  EXPECT_EQ(get("/files/download?path=f&offset=1", {{"Range", "bytes=0-1"}}).status, 400);
}

TEST_F(FileRoutes, DownloadsFilesWhoseSizeIsNotKnown) {
  EXPECT_THAT(get("/files/download?path=/proc/self/status").body, HasSubstr("Name:"));
  EXPECT_EQ(get("/files/download?path=/proc/self/oom_score_adj").status, 200);
  write("empty", "");
  const Answer empty = get("/files/download?path=empty");
  EXPECT_EQ(empty.status, 200);
  EXPECT_EQ(empty.body, "");
}

TEST_F(FileRoutes, UploadsPairsInOneRequest) {
  write("there", "old");
  ::chmod(at("there").c_str(), 0600);
  const Answer answer = upload({{"metadata", R"({"path":"new/a","mode":640,"owner":null,"group":null})"},
                                {"file", "first"},
                                {"ignored", "x"},
                                {"metadata", R"({"path":")" + at("there") + R"("})"},
                                {"file", std::string(3'000'000, 'z')}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body, "");
  EXPECT_EQ(content("new/a"), "first");
  EXPECT_EQ(mode("new/a"), 0640u);
  EXPECT_EQ(content("there"), std::string(3'000'000, 'z'));
  EXPECT_EQ(mode("there"), 0600u);
}

TEST_F(FileRoutes, UploadPairsByPositionInAnyOrder) {
  const Answer answer = upload({{"file", "1"},
                                {"file", "2"},
                                {"metadata", R"({"path":"a"})"},
                                {"metadata", R"({"path":"b"})"},
                                {"metadata", R"({"path":"c"})"},
                                {"file", "3"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(content("a") + content("b") + content("c"), "123");
}

TEST_F(FileRoutes, UploadOfManyFilesDoesNotHoldThemAllOpen) {
  std::vector<Part> parts;
  for (int i = 0; i < 450; ++i) {
    parts.push_back({"metadata", R"({"path":"d/)" + std::to_string(i) + R"("})"});
    parts.push_back({"file", std::to_string(i)});
  }
  ASSERT_EQ(upload(parts).status, 200);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_ / "d"), {}), 450);
  EXPECT_EQ(content("d/449"), "449");
}

TEST_F(FileRoutes, MalformedUploadsChangeNothing) {
  write("f", "old");
  const Part good{"metadata", R"({"path":"f"})"};
  const Part file{"file", "new"};
  struct {
    const char* why;
    std::vector<Part> parts;
    int status;
    const char* code;
  } rows[] = {
      {"no parts", {}, 400, "INVALID_FILE_METADATA"},
      {"no metadata", {file}, 400, "INVALID_FILE_METADATA"},
      {"no file", {good}, 400, "INVALID_FILE_CONTENT"},
      {"more metadata", {good, file, good}, 400, "INVALID_FILE"},
      {"more files", {good, file, file}, 400, "INVALID_FILE"},
      {"not JSON", {{"metadata", "{"}, file}, 400, "INVALID_FILE_METADATA"},
      {"no path", {{"metadata", "{}"}, file}, 400, "INVALID_FILE_METADATA"},
      {"empty path", {{"metadata", R"({"path":""})"}, file}, 400, "INVALID_FILE_METADATA"},
      {"second is bad", {good, file, {"metadata", "[]"}, file}, 400, "INVALID_FILE_METADATA"},
      {"unknown owner", {{"metadata", R"({"path":"f","owner":"no-such-user"})"}, file}, 500, "RUNTIME_ERROR"},
      {"bad mode", {{"metadata", R"({"path":"f","mode":888})"}, file}, 500, "RUNTIME_ERROR"},
      {"undefined variable", {{"metadata", R"({"path":"$NOPE/f"})"}, file}, 500, "RUNTIME_ERROR"},
      {"directory", {{"metadata", R"({"path":"."})"}, file}, 500, "RUNTIME_ERROR"},
  };
  for (const auto& row : rows) {
    const Answer answer = upload(row.parts);
    EXPECT_EQ(answer.status, row.status) << row.why << ": " << answer.body;
    EXPECT_THAT(answer.body, HasSubstr("\"" + std::string(row.code) + "\"")) << row.why;
    EXPECT_EQ(content("f"), "old") << row.why;
    EXPECT_EQ(entries(), 1u) << row.why;
  }
  EXPECT_THAT(post("/files/upload", "x").body, HasSubstr("\"INVALID_FILE\""));
  EXPECT_THAT(call("POST", "/files/upload", {"garbage"}, {{"Content-Type", kMultipart}}).body,
              HasSubstr("\"INVALID_FILE\""));
}

TEST_F(FileRoutes, AnUploadThatBreaksOffLeavesNothingBehind) {
  write("f", "old");
  const std::string body = multipart({{"metadata", R"({"path":"new/dir/first"})"},
                                      {"file", "1"},
                                      {"metadata", R"({"path":"f"})"},
                                      {"file", std::string(4'000'000, 'n')}});
  for (const std::size_t size : {std::size_t{50}, std::size_t{400}, std::size_t{3'000'000}, body.size() - 3}) {
    for (const bool cut : {true, false}) {
      const Answer answer = call("POST", "/files/upload", {body.substr(0, size)}, {{"Content-Type", kMultipart}}, cut);
      EXPECT_EQ(answer.status, 400);
      EXPECT_EQ(content("f"), "old");
      EXPECT_EQ(entries(), 1u) << size;
    }
  }
}

TEST_F(FileRoutes, PermissionsMovesAndDirectories) {
  write("f", "x");
  fs::create_symlink("f", dir_ / "link");
  EXPECT_EQ(post("/files/permissions", R"({"link":{"mode":604}})").status, 200);
  EXPECT_EQ(mode("f"), 0604u);
  EXPECT_EQ(post("/files/permissions", R"({"f":{"mode":0,"owner":null}})").status, 200);
  EXPECT_EQ(mode("f"), 0604u);
  EXPECT_EQ(post("/files/permissions", R"({"f":{"mode":4755}})").status, 200);
  EXPECT_EQ(mode("f"), 0755u) << "only rwx bits";
  EXPECT_EQ(post("/files/permissions", R"({"f":{"mode":789}})").status, 500);
  EXPECT_EQ(post("/files/permissions", R"({"none":{"mode":755}})").status, 500);
  EXPECT_EQ(post("/files/permissions", R"({"f":{"owner":"no-such-user"}})").status, 500);
  EXPECT_EQ(post("/files/permissions", "nonsense").status, 400);
  if (::geteuid() == 0) {
    EXPECT_EQ(post("/files/permissions", R"({"f":{"owner":"nobody","group":"4321"}})").status, 200);
    struct stat st{};
    ::stat(at("f").c_str(), &st);
    EXPECT_EQ(st.st_uid, 65534u);
    EXPECT_EQ(st.st_gid, 4321u);
  }

  EXPECT_EQ(post("/files/mv", R"([{"src":"f","dest":"x/y/g"},{"src":"x/y","dest":"z"}])").status, 200);
  EXPECT_EQ(content("z/g"), "x");
  EXPECT_EQ(post("/files/mv", R"([{"src":"f","dest":"h"}])").status, 404);
  EXPECT_EQ(post("/files/mv", R"([{"src":"z","dest":"x"}])").status, 500);
  EXPECT_EQ(post("/files/mv", "{}").status, 400);

  EXPECT_EQ(post("/directories", R"({"p/q":{"mode":750},"z":{"mode":700}})").status, 200);
  EXPECT_EQ(mode("p/q"), 0750u);
  EXPECT_NE(mode("z"), 0700u) << "it was there before";
  EXPECT_EQ(post("/directories", R"({"z/g/sub":{}})").status, 500);
  EXPECT_EQ(call("DELETE", "/files?path=p").status, 500);
  EXPECT_EQ(call("DELETE", "/directories?path=p&path=none&path=z").status, 200);
  EXPECT_FALSE(fs::exists(dir_ / "p"));
  EXPECT_EQ(call("DELETE", "/files").status, 200);
  EXPECT_EQ(call("DELETE", "/files?path=link&path=none").status, 200);
  EXPECT_EQ(call("DELETE", "/directories?path=/").status, 500);
}

TEST_F(FileRoutes, ReplacesInFiles) {
  write("a", "x y x");
  write("b", "z");
  const Answer verbose = post("/files/replace?verbose=true", R"({"a":{"old":"x","new":"1"},"b":{"old":"q","new":""}})");
  EXPECT_EQ(verbose.body, R"({"a":{"replacedCount":2},"b":{"replacedCount":0}})");
  EXPECT_EQ(content("a"), "1 y 1");
  EXPECT_EQ(post("/files/replace?verbose=1", R"({"a":{"old":"1","new":"2"}})").body, "{}");
  EXPECT_EQ(post("/files/replace", R"({"a":{"old":"","new":"2"}})").status, 400);
  EXPECT_EQ(post("/files/replace", R"({"none":{"old":"a","new":"2"}})").status, 404);
  EXPECT_EQ(content("a"), "2 y 2");
}

TEST_F(FileRoutes, ArchivesGoOutAndComeBack) {
  fs::create_directories(dir_ / "from" / "sub");
  write("from/a", "hello");
  write("from/sub/big", std::string(2'000'000, 'b'));
  ::chmod(at("from/a").c_str(), 0701);
  const Answer archive = get("/directories/archive?path=from");
  ASSERT_EQ(archive.status, 200) << archive.body;
  EXPECT_EQ(archive.headers.get("Content-Type"), "application/x-tar");
  EXPECT_TRUE(archive.streamed);
  const Answer done = call("POST", "/directories/archive?path=to/new", {archive.body});
  ASSERT_EQ(done.status, 200) << done.body;
  EXPECT_EQ(content("to/new/a"), "hello");
  EXPECT_EQ(mode("to/new/a"), 0701u);
  EXPECT_EQ(content("to/new/sub/big"), std::string(2'000'000, 'b'));

  const Answer garbage = post("/directories/archive?path=to", std::string(1024, 'x'));
  EXPECT_EQ(garbage.status, 400);
  EXPECT_THAT(garbage.body, HasSubstr("INVALID_FILE"));
  EXPECT_EQ(post("/directories/archive?path=from/a", archive.body).status, 400);
  EXPECT_EQ(call("POST", "/directories/archive?path=cut", {archive.body.substr(0, 100'000)}, {}, true).status, 400);
  EXPECT_FALSE(fs::exists(dir_ / "cut" / "sub" / "big"));
}

}  // namespace
}  // namespace osb::execd
