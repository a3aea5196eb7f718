#pragma once

#include <string>
#include <vector>

#include "cohort/store/chain_task.h"

namespace cohort::sqlite {

/// What of a request is kept as JSON: all that nothing is looked up by.
[[nodiscard]] std::string request_text(const NewTask& request);
/// The same without the steps' parameters.
[[nodiscard]] std::string outline_text(NewTask request);
void read_request(const std::string& text, NewTask& request);
[[nodiscard]] std::string lines_text(const std::vector<std::string>& lines);
[[nodiscard]] std::vector<std::string> read_lines(const std::string& text);

}  // namespace cohort::sqlite
