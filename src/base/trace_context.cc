#include "cohort/base/trace_context.h"

#include <algorithm>
#include <span>

namespace cohort {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool read_hex(std::string_view text, std::span<std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = hex_value(text[2 * i]);
    const int low = hex_value(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return true;
}

void write_hex(std::string& text, std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const std::uint8_t byte : bytes) text.append({kDigits[byte >> 4], kDigits[byte & 15]});
}

bool all_zero(std::span<const std::uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

void fill(std::span<std::uint8_t> bytes, Random& random) {
  do {
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
  } while (all_zero(bytes));
}

}  // namespace

std::optional<TraceContext> TraceContext::parse(std::string_view text) {
  constexpr std::size_t kLength = 55;
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  TraceContext context;
  std::array<std::uint8_t, 1> version{};
  std::array<std::uint8_t, 1> flags{};
  const bool hex = read_hex(text, version) && read_hex(text.substr(3), context.trace_id) &&
                   read_hex(text.substr(36), context.span_id) && read_hex(text.substr(53), flags);
  if (!hex || version[0] == 0xFF) return std::nullopt;
  if (text.size() > kLength && (version[0] == 0 || text[kLength] != '-')) return std::nullopt;
  if (all_zero(context.trace_id) || all_zero(context.span_id)) return std::nullopt;
  context.sampled = (flags[0] & 1U) != 0;
  return context;
}

TraceContext TraceContext::start(Random& random, bool sampled) {
  TraceContext context;
  fill(context.trace_id, random);
  fill(context.span_id, random);
  context.sampled = sampled;
  return context;
}

TraceContext TraceContext::child(Random& random) const {
  TraceContext context = *this;
  fill(context.span_id, random);
  return context;
}

std::string TraceContext::to_string() const {
  std::string text = "00-";
  write_hex(text, trace_id);
  text.push_back('-');
  write_hex(text, span_id);
  return text.append(sampled ? "-01" : "-00");
}

}  // namespace cohort
