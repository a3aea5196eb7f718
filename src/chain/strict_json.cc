#include "chain/strict_json.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "chain/json_depth.h"

namespace cohort {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxValues = 1'000'000;

/// Builds the value while the parser reads it, and stops at the first fault.
class Builder {
 public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(number_integer_t value) { return put(value); }
  bool number_unsigned(number_unsigned_t value) { return put(value); }
  bool number_float(number_float_t value, const string_t&) { return put(value); }
  bool string(string_t& value) { return put(std::move(value)); }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return open(json::object()); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(json::array()); }
  bool end_array() { return close(); }

  bool key(string_t& name) {
    json& object = *open_.back();
    const auto [place, is_new] = object.emplace(name, nullptr);
    if (!is_new) return fail("the key '" + name + "' is there twice");
    member_ = &*place;
    return true;
  }

  bool parse_error(std::size_t at, const std::string&, const json::exception& error) {
    const std::string said = error.what();
    const std::string where = " (at byte " + std::to_string(at) + ")";
    const auto has = [&](const char* part) { return said.find(part) != std::string::npos; };
    if (error.id == 406) return fail("a number is out of range" + where);
    if (has("ill-formed UTF-8")) return fail("it is not UTF-8" + where);
    if (has("unexpected end of input")) return fail("it ends too early" + where);
    if (has("expected end of input")) return fail("there are further bytes after the value" + where);
    return fail("it is not JSON" + where);
  }

  Result<json> finish(bool good) {
    if (good) return std::move(root_);
    return Error{ErrorCode::kInvalid, fault_.empty() ? "it is not JSON" : fault_};
  }

 private:
  bool fail(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
    return false;
  }

  json* place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    *member_ = std::move(value);
    return member_;
  }

  bool put(json value) {
    if (++values_ > kMaxValues) return fail("it has more than a million values");
    place(std::move(value));
    return true;
  }

  bool open(json empty) {
    if (open_.size() >= static_cast<std::size_t>(kMaxJsonDepth)) return fail("it is nested more than 64 deep");
    if (++values_ > kMaxValues) return fail("it has more than a million values");
    open_.push_back(place(std::move(empty)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<json*>
      open_;  // Objects and arrays that have not ended. None moves while it is open: its parent does not grow.
  json* member_ = nullptr;
  std::size_t values_ = 0;
  std::string fault_;
};

}  // namespace

std::optional<std::uint64_t> whole_number(const json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto given = value.get<double>();
  if (given < 0 || given > 9e15 || given != std::floor(given)) return std::nullopt;
  return static_cast<std::uint64_t>(given);
}

Result<json> parse_strict_json(std::string_view text) {
  Builder builder;
  const bool good = json::sax_parse(text.begin(), text.end(), &builder);
  return builder.finish(good);
}

}  // namespace cohort
