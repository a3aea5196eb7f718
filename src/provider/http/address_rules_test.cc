#include "provider/http/address_rules.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <string>

namespace cohort::internal {
namespace {

struct Verdict {
  bool is_public = false;
  std::string text;
};

Verdict ask(const std::string& text) {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  } address{};
  if (text.find(':') == std::string::npos) {
    address.v4.sin_family = AF_INET;
    EXPECT_EQ(inet_pton(AF_INET, text.c_str(), &address.v4.sin_addr), 1) << text;
  } else {
    address.v6.sin6_family = AF_INET6;
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &address.v6.sin6_addr), 1) << text;
  }
  return {is_public_address(address.any), text_of_address(address.any)};
}

TEST(AddressRulesTest, SpecialV4IsNotPublic) {
  for (const char* each :
       {"0.0.0.0",      "0.255.255.255",   "10.0.0.0",        "10.255.255.255",  "100.64.0.0",     "100.127.255.255",
        "127.0.0.1",    "127.255.255.255", "169.254.169.254", "172.16.0.0",      "172.31.255.255", "192.0.0.1",
        "192.0.2.255",  "192.88.99.1",     "192.168.0.0",     "192.168.255.255", "198.18.0.0",     "198.19.255.255",
        "198.51.100.7", "203.0.113.7",     "224.0.0.1",       "239.255.255.255", "240.0.0.0",      "255.255.255.255"}) {
    EXPECT_FALSE(ask(each).is_public) << each;
  }
}

TEST(AddressRulesTest, TheNeighboursOfSpecialV4ArePublic) {
  for (const char* each :
       {"1.0.0.0",         "9.255.255.255",   "11.0.0.0",      "100.63.255.255", "100.128.0.0",     "126.255.255.255",
        "128.0.0.0",       "169.253.255.255", "169.255.0.0",   "172.15.255.255", "172.32.0.0",      "191.255.255.255",
        "192.0.1.0",       "192.0.3.0",       "192.88.98.255", "192.88.100.0",   "192.167.255.255", "192.169.0.0",
        "198.17.255.255",  "198.20.0.0",      "198.51.99.255", "198.51.101.0",   "203.0.112.255",   "203.0.114.0",
        "223.255.255.255", "8.8.8.8"}) {
    EXPECT_TRUE(ask(each).is_public) << each;
  }
}

TEST(AddressRulesTest, SpecialV6IsNotPublic) {
  for (const char* each : {"::", "::1", "::127.0.0.1", "::8.8.8.8", "100::1", "64:ff9b:1::8.8.8.8", "2001::1",
                           "2001:1ff::1", "2001:db8::1", "3fff:fff::1", "5f00::1", "fc00::1", "fdff::1", "fe80::1",
                           "febf::1", "fec0::1", "ff02::1", "ffff::1"}) {
    EXPECT_FALSE(ask(each).is_public) << each;
  }
}

TEST(AddressRulesTest, GlobalV6IsPublic) {
  for (const char* each :
       {"2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111", "2a00:1450::1", "3fff:1000::1"}) {
    EXPECT_TRUE(ask(each).is_public) << each;
  }
}

TEST(AddressRulesTest, AV6AddressThatStandsForAV4OneIsWhatThatIs) {
  for (const char* each : {"::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:169.254.169.254", "64:ff9b::192.168.0.1",
                           "64:ff9b::7f00:1", "2002:7f00:1::", "2002:c0a8:1::1", "2002:a00::1"}) {
    EXPECT_FALSE(ask(each).is_public) << each;
  }
  for (const char* each : {"::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"}) {
    EXPECT_TRUE(ask(each).is_public) << each;
  }
}

TEST(AddressRulesTest, WhatIsNotIpIsNotPublic) {
  union {
    sockaddr any;
    sockaddr_un local;
  } address{};
  address.local.sun_family = AF_UNIX;

  EXPECT_FALSE(is_public_address(address.any));
  EXPECT_EQ(text_of_address(address.any), "of no known kind");
}

TEST(AddressRulesTest, AddressesHaveATextForMessages) {
  EXPECT_EQ(ask("127.0.0.1").text, "127.0.0.1");
  EXPECT_EQ(ask("0:0::1").text, "::1");
}

}  // namespace
}  // namespace cohort::internal
