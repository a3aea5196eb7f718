#include "backend/postgres/wire.h"

#include <algorithm>
#include <array>

namespace cohort::postgres {

namespace {

// Numbers go over the wire with the highest byte first.
template <class T>
void append(std::string& to, T value) {
  std::array<char, sizeof(T)> bytes{};
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes[sizeof(T) - 1 - i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
  to.append(bytes.data(), bytes.size());
}

template <class T>
std::string bytes_of(T value) {
  std::string bytes;
  append(bytes, value);
  return bytes;
}

std::uint64_t read(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char c : bytes) value = value << 8U | static_cast<unsigned char>(c);
  return value;
}

}  // namespace

void Column::add_bytes(std::string_view bytes) {
  append(elements_, static_cast<std::int32_t>(bytes.size()));
  elements_ += bytes;
  ++size_;
}

Column& Column::add(std::int64_t value) {
  add_bytes(bytes_of(value));
  return *this;
}

Column& Column::add(bool value) {
  add_bytes(value ? std::string_view("\1", 1) : std::string_view("\0", 1));
  return *this;
}

Column& Column::add(double value) {
  add_bytes(bytes_of(std::bit_cast<std::int64_t>(value)));
  return *this;
}

Column& Column::add(std::string_view value) {
  add_bytes(value);
  return *this;
}

Column& Column::add_null() {
  append(elements_, std::int32_t{-1});
  has_null_ = true;
  ++size_;
  return *this;
}

std::string Column::bytes() const {
  std::string bytes;
  bytes.reserve(elements_.size() + 20);
  append(bytes, std::int32_t{size_ == 0 ? 0 : 1});  // Dimensions.
  append(bytes, std::int32_t{has_null_ ? 1 : 0});
  append(bytes, static_cast<std::int32_t>(type_));
  if (size_ == 0) return bytes;
  append(bytes, static_cast<std::int32_t>(size_));
  append(bytes, std::int32_t{1});  // The index of the first.
  return bytes + elements_;
}

Parameters& Parameters::add(std::int64_t value) {
  values_.push_back(bytes_of(value));
  return *this;
}

Parameters& Parameters::add(bool value) {
  values_.emplace_back(1, value ? '\1' : '\0');
  return *this;
}

Parameters& Parameters::add(std::string_view value) {
  values_.emplace_back(value);
  return *this;
}

Parameters& Parameters::add(const Column& column) {
  values_.push_back(column.bytes());
  return *this;
}

// Of smallint, integer and bigint alike.
std::int64_t Row::integer() {
  const std::string_view value = bytes();
  const std::uint64_t number = read(value);
  if (value.size() == 2) return static_cast<std::int16_t>(number);
  if (value.size() == 4) return static_cast<std::int32_t>(number);
  return static_cast<std::int64_t>(number);
}

double Row::real() { return std::bit_cast<double>(read(bytes())); }

std::string Row::text_or_null() {
  if (!is_null()) return text();
  skip();
  return {};
}

std::optional<WallTime> Row::time_or_null() {
  if (!is_null()) return time();
  skip();
  return std::nullopt;
}

std::optional<Duration> Row::duration_or_null() {
  if (!is_null()) return duration();
  skip();
  return std::nullopt;
}

}  // namespace cohort::postgres
