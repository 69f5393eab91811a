#include "http/multipart.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/await.h"

namespace osb::http {
namespace {

using Event = MultipartParser::Event;

struct Part {
  PartHead head;
  std::string data;
};

struct Outcome {
  std::vector<Part> parts;
  std::string error;  // empty: parsed to the end
};

// Feeds `body` in pieces whose sizes `size_of_next` chooses, and checks the order of the events.
template <typename F>
Outcome parse_in_pieces(std::string_view boundary, std::string_view body, F size_of_next, MultipartLimits limits = {}) {
  MultipartParser parser(boundary, limits);
  Outcome out;
  bool open = false;
  bool ended = false;
  while (true) {
    switch (parser.next()) {
      case Event::NeedInput: {
        if (body.empty()) {
          if (auto whole = parser.finish(); !whole) {
            out.error = whole.error().message;
          } else {
            EXPECT_TRUE(ended);
          }
          return out;
        }
        const std::size_t size = std::min<std::size_t>(size_of_next(), body.size());
        parser.feed(body.substr(0, size));
        body.remove_prefix(size);
        break;
      }
      case Event::PartBegin:
        EXPECT_FALSE(open);
        open = true;
        out.parts.push_back({parser.head(), ""});
        break;
      case Event::Data:
        EXPECT_TRUE(open);
        EXPECT_FALSE(parser.data().empty());
        out.parts.back().data += parser.data();
        break;
      case Event::PartEnd:
        EXPECT_TRUE(open);
        open = false;
        break;
      case Event::End:
        EXPECT_FALSE(open);
        EXPECT_FALSE(ended);
        ended = true;
        break;
      case Event::Failed:
        out.error = parser.error().message;
        EXPECT_EQ(parser.error().code, Code::InvalidRequest);
        EXPECT_EQ(parser.next(), Event::Failed);
        return out;
    }
  }
}

// Whole, and one byte at a time: both have to agree.
Outcome parse(std::string_view body, std::string_view boundary = "B", MultipartLimits limits = {}) {
  Outcome whole = parse_in_pieces(boundary, body, [&] { return body.size(); }, limits);
  const Outcome bytewise = parse_in_pieces(boundary, body, [] { return 1; }, limits);
  EXPECT_EQ(whole.error, bytewise.error);
  EXPECT_EQ(whole.parts.size(), bytewise.parts.size());
  for (std::size_t i = 0; i < std::min(whole.parts.size(), bytewise.parts.size()); ++i) {
    EXPECT_EQ(whole.parts[i].head.name, bytewise.parts[i].head.name);
    EXPECT_EQ(whole.parts[i].head.filename, bytewise.parts[i].head.filename);
    EXPECT_EQ(whole.parts[i].data, bytewise.parts[i].data);
  }
  return whole;
}

std::string one_part(std::string_view head, std::string_view data) {
  return "--B\r\n" + std::string(head) + "\r\n" + std::string(data) + "\r\n--B--\r\n";
}

TEST(Multipart, ReadsMetadataAndFilePairs) {
  const Outcome out = parse(
      "--B\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n"
      "Content-Type: application/json\r\n\r\n{\"path\":\"/tmp/x\"}\r\n"
      "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/tmp/x\"\r\n\r\nhello\r\nworld\r\n"
      "--B--\r\n");
  EXPECT_EQ(out.error, "");
  ASSERT_EQ(out.parts.size(), 2U);
  EXPECT_EQ(out.parts[0].head.name, "metadata");
  EXPECT_EQ(out.parts[0].head.filename, "metadata");
  EXPECT_EQ(out.parts[0].head.content_type, "application/json");
  EXPECT_EQ(out.parts[0].data, "{\"path\":\"/tmp/x\"}");
  EXPECT_EQ(out.parts[1].head.name, "file");
  EXPECT_EQ(out.parts[1].head.filename, "/tmp/x");
  EXPECT_EQ(out.parts[1].data, "hello\r\nworld");
}

TEST(Multipart, TakesUnquotedNamesAndExtendedFileNames) {
  const Outcome out = parse(one_part(
      "Content-Disposition: form-data; name=metadata; filename=plain; filename*=utf-8''na%C3%AFve%20x\r\n", "1"));
  ASSERT_EQ(out.parts.size(), 1U);
  EXPECT_EQ(out.parts[0].head.name, "metadata");
  EXPECT_EQ(out.parts[0].head.filename, "na\xC3\xAFve x");
}

TEST(Multipart, ExtendedFileNameOfUnknownCharsetFallsBackToThePlainOne) {
  const Outcome out =
      parse(one_part("Content-Disposition: form-data; name=a; filename=p; filename*=koi8-r''%C1\r\n", ""));
  ASSERT_EQ(out.parts.size(), 1U);
  EXPECT_EQ(out.parts[0].head.filename, "p");
}

TEST(Multipart, PartsNeedNoFileNameAndNoHeadAtAll) {
  const Outcome out = parse("--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--B\r\n\r\n2\r\n--B--");
  EXPECT_EQ(out.error, "");
  ASSERT_EQ(out.parts.size(), 2U);
  EXPECT_EQ(out.parts[0].head.filename, std::nullopt);
  EXPECT_EQ(out.parts[1].head.name, "");
  EXPECT_EQ(out.parts[1].data, "2");
}

TEST(Multipart, EscapedQuotesEndInTheNameAndLoneBackslashesStay) {
  const Outcome out =
      parse(one_part("content-disposition: form-data; name=\"a\\\"b\"; filename=\"C:\\dir;x\"\r\n", ""));
  ASSERT_EQ(out.parts.size(), 1U);
  EXPECT_EQ(out.parts[0].head.name, "a\"b");
  EXPECT_EQ(out.parts[0].head.filename, "C:\\dir;x");
}

TEST(Multipart, FoldedHeadLinesAreJoined) {
  const Outcome out = parse(one_part("Content-Disposition: form-data;\r\n\tname=\"a\"\r\n", ""));
  ASSERT_EQ(out.parts.size(), 1U);
  EXPECT_EQ(out.parts[0].head.name, "a");
}

TEST(Multipart, PreambleEpilogueAndBlanksBehindABoundaryAreIgnored) {
  const Outcome out = parse("a preamble\r\n--B \t\r\n\r\nx\r\n--B--  \r\nan epilogue\r\n--B\r\n");
  EXPECT_EQ(out.error, "");
  ASSERT_EQ(out.parts.size(), 1U);
  EXPECT_EQ(out.parts[0].data, "x");
}

TEST(Multipart, TheFinalLineBreakMayBeMissing) { EXPECT_EQ(parse("--B\r\n\r\nx\r\n--B--").error, ""); }

TEST(Multipart, ABodyWithoutPartsIsFine) {
  const Outcome out = parse("--B--\r\n");
  EXPECT_EQ(out.error, "");
  EXPECT_TRUE(out.parts.empty());
}

TEST(Multipart, EmptyPartsMayShareTheirLineBreakWithTheBoundary) {
  const Outcome out = parse("--B\r\n\r\n\r\n--B\r\nX: y\r\n\r\n--B--\r\n");
  EXPECT_EQ(out.error, "");
  ASSERT_EQ(out.parts.size(), 2U);
  EXPECT_EQ(out.parts[0].data, "");
  EXPECT_EQ(out.parts[1].data, "");
}

TEST(Multipart, TextThatOnlyLooksLikeABoundaryIsData) {
  for (const std::string_view data : {"\r\n--Bx", "--Bx", "\r\n--B-x", "\r\n-", "\r\r\n--", "\r\n\r\n--", "--", "\r",
                                      "\n--B--", "x--B--", "\r\n--C", "\r\n--", "--B-", "\r\n--b--"}) {
    const Outcome out = parse(one_part("", data));
    EXPECT_EQ(out.error, "") << data;
    ASSERT_EQ(out.parts.size(), 1U) << data;
    EXPECT_EQ(out.parts[0].data, data);
  }
}

TEST(Multipart, ACutOffUploadIsAnErrorWhereverItEnds) {
  const std::string body = one_part("Content-Disposition: form-data; name=a\r\n", "data");
  const std::size_t closed = body.size() - 2;  // the final line break is not needed
  for (std::size_t size = 0; size < closed; ++size) {
    EXPECT_NE(parse(body.substr(0, size)).error, "") << size;
  }
  EXPECT_EQ(parse(body.substr(0, closed)).error, "");
}

TEST(Multipart, BrokenHeadsAreErrors) {
  for (const std::string_view head : {"no colon\r\n", ": empty\r\n", "a b: c\r\n", " folded: first\r\n",
                                      "Content-Disposition: form-data; name=\"a\r\n", "X: \x01\r\n", "X: a\rb\r\n",
                                      "Content-Disposition: form-data; name\r\n"}) {
    EXPECT_NE(parse(one_part(head, "x")).error, "") << head;
  }
  EXPECT_NE(parse("--B x\r\n\r\n\r\n--B--").error, "");
}

TEST(Multipart, LimitsHold) {
  const std::string field = "X: " + std::string(100, 'x') + "\r\n";
  std::string many;
  for (int i = 0; i < 4; ++i) many += field;
  EXPECT_EQ(parse(one_part(many, ""), "B", {.head_bytes = 1000, .head_fields = 4}).error, "");
  EXPECT_NE(parse(one_part(many, ""), "B", {.head_bytes = 1000, .head_fields = 3}).error, "");
  EXPECT_NE(parse(one_part(many, ""), "B", {.head_bytes = 400, .head_fields = 4}).error, "");
  EXPECT_NE(parse(std::string(101, 'p') + "\r\n" + one_part("", ""), "B", {.outside_bytes = 100}).error, "");
  EXPECT_NE(parse(one_part("", "") + std::string(101, 'e'), "B", {.outside_bytes = 100}).error, "");
  EXPECT_EQ(parse("--B\r\n\r\n\r\n--B\r\n\r\n\r\n--B--", "B", {.parts = 2}).error, "");
  EXPECT_NE(parse("--B\r\n\r\n\r\n--B\r\n\r\n\r\n--B--", "B", {.parts = 1}).error, "");
}

TEST(Multipart, TheSplitIntoPiecesDoesNotMatter) {
  std::mt19937 random(20240611);
  // Few different bytes, so that beginnings of boundaries are frequent.
  const std::string alphabet = "\r\n--Ba";
  const auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (int round = 0; round < 400; ++round) {
    const std::string boundary = round % 3 == 0 ? "B" : round % 3 == 1 ? "Ba-B" : "----form0123456789abcdefBa";
    std::vector<std::string> want;
    std::string body;
    for (std::size_t n = pick(4); n > 0; --n) {
      std::string data;
      for (std::size_t size = pick(200); size > 0; --size) data += alphabet[pick(alphabet.size())];
      if (("\r\n" + data).find("\r\n--" + boundary) != std::string::npos) data = "plain";
      body += "--" + boundary + "\r\nContent-Disposition: form-data; name=f\r\n\r\n" + data + "\r\n";
      want.push_back(std::move(data));
    }
    body += "--" + boundary + "--\r\n";
    const std::size_t largest = 1 + pick(40);
    const Outcome out = parse_in_pieces(boundary, body, [&] { return 1 + pick(largest); });
    ASSERT_EQ(out.error, "") << round;
    ASSERT_EQ(out.parts.size(), want.size()) << round;
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(out.parts[i].data, want[i]) << round;
  }
}

TEST(Multipart, DataOfALargePieceIsNotCopied) {
  const std::string body = one_part("", std::string(100'000, 'x'));
  MultipartParser parser("B");
  parser.feed(body);
  ASSERT_EQ(parser.next(), Event::PartBegin);
  ASSERT_EQ(parser.next(), Event::Data);
  EXPECT_EQ(parser.data().size(), 100'000U);
  EXPECT_EQ(parser.data().data(), body.data() + body.find('x'));
}

TEST(BoundaryOf, TakesQuotedAndPlainBoundaries) {
  EXPECT_EQ(boundary_of("multipart/form-data; boundary=abc").value(), "abc");
  EXPECT_EQ(boundary_of("Multipart/Form-Data; charset=utf-8; Boundary=\"a b:c\"").value(), "a b:c");
  EXPECT_EQ(boundary_of("multipart/form-data;boundary=----WebKit;").value(), "----WebKit");
}

TEST(BoundaryOf, SaysWhatIsWrong) {
  const auto message = [](std::string_view type) { return boundary_of(type).error().message; };
  EXPECT_THAT(message(""), ::testing::HasSubstr("missing"));
  EXPECT_THAT(message("application/json"), ::testing::HasSubstr("expected multipart/form-data"));
  EXPECT_THAT(message("multipart/form-data"), ::testing::HasSubstr("without a boundary"));
  EXPECT_THAT(message("multipart/form-data; boundary="), ::testing::HasSubstr("without a boundary"));
  EXPECT_THAT(message("multipart/form-data; boundary=\"abc"), ::testing::HasSubstr("malformed"));
  EXPECT_THAT(message("multipart/form-data; boundary=" + std::string(71, 'x')), ::testing::HasSubstr("longer"));
  EXPECT_THAT(message("multipart/form-data; boundary=\"a\tb\""), ::testing::HasSubstr("may not contain"));
  EXPECT_THAT(message("multipart/form-data; boundary=\"a \""), ::testing::HasSubstr("may not contain"));
}

// A body that arrives in the given pieces, and then ends or breaks.
class PiecewiseBody : public BodySource {
 public:
  explicit PiecewiseBody(std::vector<std::string> pieces, bool breaks = false)
      : pieces_(std::move(pieces)), breaks_(breaks) {}
  net::awaitable<Result<std::string_view>> read() override {
    if (at_ < pieces_.size()) co_return pieces_[at_++];
    if (breaks_) co_return fail(Code::Cancelled, "peer left");
    ended_ = true;
    co_return std::string_view();
  }
  std::optional<std::uint64_t> length() const override { return std::nullopt; }
  bool ended() const { return ended_; }

 private:
  std::vector<std::string> pieces_;
  std::size_t at_ = 0;
  bool breaks_;
  bool ended_ = false;
};

std::vector<std::string> cut(std::string_view text, std::size_t size) {
  std::vector<std::string> out;
  for (; !text.empty(); text.remove_prefix(std::min(size, text.size()))) out.emplace_back(text.substr(0, size));
  return out;
}

constexpr std::string_view kTwoParts =
    "--B\r\nContent-Disposition: form-data; name=a\r\n\r\nfirst\r\n"
    "--B\r\nContent-Disposition: form-data; name=b\r\n\r\nsecond part\r\n--B--\r\nepilogue";

TEST(MultipartReader, GivesPartsAndTheirPieces) {
  for (const std::size_t size : {1U, 7U, 1000U}) {
    PiecewiseBody body(cut(kTwoParts, size));
    MultipartReader reader(body, "B");
    testing::await([&]() -> net::awaitable<void> {
      const auto a = co_await reader.next_part();
      EXPECT_EQ(a.value()->name, "a");
      std::string data;
      while (true) {
        const auto piece = co_await reader.read();
        if (piece.value().empty()) break;
        data += *piece;
      }
      EXPECT_EQ(data, "first");
      EXPECT_TRUE((co_await reader.read()).value().empty());
      EXPECT_EQ((co_await reader.next_part()).value()->name, "b");
      EXPECT_EQ((co_await reader.read_all(11)).value(), "second part");
      EXPECT_EQ((co_await reader.next_part()).value(), nullptr);
      EXPECT_TRUE(body.ended());
      EXPECT_EQ((co_await reader.next_part()).value(), nullptr);
    }());
  }
}

TEST(MultipartReader, SkipsPartsThatAreNotRead) {
  PiecewiseBody body(cut(kTwoParts, 5));
  MultipartReader reader(body, "B");
  testing::await([&]() -> net::awaitable<void> {
    EXPECT_EQ((co_await reader.next_part()).value()->name, "a");
    EXPECT_EQ((co_await reader.next_part()).value()->name, "b");
    EXPECT_EQ((co_await reader.read_all(10)).error().code, Code::TooLarge);
    EXPECT_EQ((co_await reader.next_part()).value(), nullptr);
  }());
}

TEST(MultipartReader, PassesErrorsOn) {
  PiecewiseBody broken(cut(kTwoParts.substr(0, kTwoParts.find("rst")), 5), true);
  MultipartReader first(broken, "B");
  PiecewiseBody cut_off(cut(kTwoParts.substr(0, kTwoParts.find("rst")), 5));
  MultipartReader second(cut_off, "B");
  testing::await([&]() -> net::awaitable<void> {
    EXPECT_TRUE((co_await first.next_part()).has_value());
    EXPECT_EQ((co_await first.read_all(1000)).error().code, Code::Cancelled);
    EXPECT_TRUE((co_await second.next_part()).has_value());
    EXPECT_EQ((co_await second.read_all(1000)).error().code, Code::InvalidRequest);
  }());
}

}  // namespace
}  // namespace osb::http
