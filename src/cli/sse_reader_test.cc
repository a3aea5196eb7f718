#include "cli/sse_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cohort {
namespace {

const std::string kStream =
    "\xEF\xBB\xBF: ping\r\n\r\nid: 7\nevent: failed\ndata: {\"a\":1}\n\n"
    "data:first\rdata: second\r\r"
    "retry: 10\nid: 8\r\nevent:gap\r\ndata\r\n\r\n"
    ": ping\n\nevent: lost\n\n";

struct Heard {
  std::vector<std::string> lines;
  SseReader::OnEvent on_event = [this](const SseEvent& event) {
    lines.push_back(event.id + "|" + event.kind + "|" + event.data);
    return true;
  };
};

const std::vector<std::string> kExpected = {"7|failed|{\"a\":1}", "7|message|first\nsecond", "8|gap|"};

TEST(SseReader, ReadsTheStreamCutAnywhere) {
  for (std::size_t cut = 0; cut <= kStream.size(); ++cut) {
    SseReader reader;
    Heard heard;

    EXPECT_TRUE(reader.feed(std::string_view(kStream).substr(0, cut), heard.on_event));
    EXPECT_TRUE(reader.feed(std::string_view(kStream).substr(cut), heard.on_event));

    EXPECT_EQ(heard.lines, kExpected) << "cut at " << cut;
    EXPECT_EQ(reader.last_event_id(), "8");
  }
}

TEST(SseReader, ReadsTheStreamByteByByte) {
  SseReader reader;
  Heard heard;
  for (const char& c : kStream) EXPECT_TRUE(reader.feed({&c, 1}, heard.on_event));
  EXPECT_EQ(heard.lines, kExpected);
}

TEST(SseReader, EndsWhenTheListenerHasEnough) {
  SseReader reader;
  int heard = 0;

  EXPECT_FALSE(reader.feed(kStream, [&](const SseEvent&) { return ++heard < 2; }));

  EXPECT_EQ(heard, 2);
  EXPECT_EQ(reader.last_event_id(), "7");
}

TEST(SseReader, AnEventThatWasCutOffIsForgottenWithItsId) {
  SseReader reader;
  Heard heard;
  reader.feed("id: 1\ndata: whole\n\nid: 2\ndata: ha", heard.on_event);

  reader.restart();
  reader.feed("data: next\n\n", heard.on_event);

  EXPECT_EQ(heard.lines, (std::vector<std::string>{"1|message|whole", "1|message|next"}));
  EXPECT_EQ(reader.last_event_id(), "1");
}

TEST(SseReader, AnEventOverTheLimitIsLeftOutAndTheNextIsRead) {
  SseReader reader(16);
  Heard heard;

  reader.feed("data: " + std::string(100, 'x') + "\n\ndata: y\n\n", heard.on_event);
  reader.feed("data: 12345\ndata: 67890\ndata: abcde\n\n", heard.on_event);
  reader.feed("data: z\n\n", heard.on_event);

  EXPECT_EQ(heard.lines, (std::vector<std::string>{"|message|y", "|message|z"}));
  EXPECT_EQ(reader.left_out(), 2U);
}

}  // namespace
}  // namespace cohort
