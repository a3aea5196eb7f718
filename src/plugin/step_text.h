#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cohort/base/result.h"
#include "cohort/chain/plugin.h"

namespace cohort {

// Texts among a step's parameters in which `{…}` stands for a value: `{task_id}`, `{group}`, `{token}`,
// `{parameters.NAME}`, `{payload.NAME}`, `{context.NAME}`, with dots for what is deeper; `{{` and `}}` are braces. The
// value is a string, a number or true or false. What it holds is not looked at again.

/// Of one text or one tree of texts when they are filled in: a short text may name a long value many times.
inline constexpr std::size_t kMaxFilledBytes = 4U << 20U;

enum class TextEncoding : std::uint8_t { kPlain, kPercent };

/// kInvalid: a brace that is neither part of a known placeholder nor doubled.
[[nodiscard]] Result<void> check_step_text(std::string_view text);
/// kInvalid: the same, or there is no such value. Values, not the text around them, are encoded.
[[nodiscard]] Result<std::string> fill_in(std::string_view text, const StepContext& step, TextEncoding encoding);

/// The same for all strings in a value, however deep; the keys of objects are left as they are. The error says where.
[[nodiscard]] Result<void> check_step_texts(const nlohmann::json& value);
[[nodiscard]] Result<nlohmann::json> fill_in_all(const nlohmann::json& value, const StepContext& step);

/// `error` with its place in front: "body: …", or "body.list[2]: …" when the error names a place within.
[[nodiscard]] Error at_place(std::string_view place, const Error& error);

}  // namespace cohort
