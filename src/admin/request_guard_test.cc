#include "admin/request_guard.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

RequestHead good() { return {.method = "GET", .host = "127.0.0.1:7070"}; }

TEST(RequestGuardTest, OnlyNamesOfThisMachineAreItsHost) {
  for (const char* host :
       {"localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:7070", "127.9.8.7:80", "[::1]", "[::1]:80"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host :
       {"", "example.com", "localhost.example.com", "127.0.0.1.example.com", "127.0.0.1:", "127.0.0.1:x", "127.1",
        "127...", "[::1", "[::1]x", "[::2]", "0.0.0.0", "localhost:123456", "127.0.0.1@evil"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

TEST(RequestGuardTest, WhoNamesAnotherHostIsRefused) {
  RequestHead head = good();
  EXPECT_FALSE(refuse(head));
  head.host = "rebound.example.com";
  EXPECT_EQ(refuse(head)->status, 403);
  head.host = "";
  EXPECT_EQ(refuse(head)->status, 400);
  head = good();
  head.hosts = 2;
  EXPECT_EQ(refuse(head)->status, 400);
}

TEST(RequestGuardTest, PagesOfOtherOriginsAreRefused) {
  RequestHead head = good();
  head.origin = "http://127.0.0.1:7070";
  EXPECT_FALSE(refuse(head));
  for (const char* origin : {"null", "http://127.0.0.1:8080", "https://127.0.0.1:7070", "http://evil.example"}) {
    head.origin = origin;
    EXPECT_EQ(refuse(head)->status, 403) << origin;
  }
  head = good();
  head.fetch_site = "cross-site";
  EXPECT_EQ(refuse(head)->status, 403);
  head.fetch_site = "same-origin";
  EXPECT_FALSE(refuse(head));
}

TEST(RequestGuardTest, ABodyIsJson) {
  RequestHead head = good();
  head.has_body = true;
  EXPECT_EQ(refuse(head)->status, 415);
  head.content_type = "text/plain";
  EXPECT_EQ(refuse(head)->status, 415);
  head.content_type = "Application/JSON; charset=utf-8";
  EXPECT_FALSE(refuse(head));
}

}  // namespace
}  // namespace cohort
