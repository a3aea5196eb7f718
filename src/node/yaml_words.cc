#include "node/yaml_words.h"

#include <yaml-cpp/exceptions.h>

#include <array>
#include <string_view>
#include <utility>

namespace cohort::internal {
namespace {

namespace parser = YAML::ErrorMsg;

constexpr const char* kIndentation =
    "this line does not fit the lines above it; keys of one section have the same indentation, and a key ends with a "
    "colon and a space";
constexpr const char* kColon = "a colon where no key can be; put a text with ': ' in quotes";
constexpr const char* kOpenQuote = "a quote that is not closed";
constexpr const char* kDigits = "\\x or \\u without hexadecimal digits of a character; use the character itself";
constexpr const char* kNoDirectives = "directives (%) are not read; remove the line, or put the text in quotes";

// By how the parser's message begins. (The parser's texts are no constants for clang.)
const std::array<std::pair<std::string_view, const char*>, 34> kWords = {{
    {parser::TAB_IN_INDENTATION, kNoTabs},
    {parser::END_OF_MAP_FLOW, "a { that no } closes"},
    {parser::END_OF_SEQ_FLOW, "a [ that no ] closes"},
    {parser::END_OF_MAP, kIndentation},
    {parser::END_OF_SEQ, kIndentation},
    {parser::FLOW_END, "a } or ] that closes nothing"},
    {parser::BLOCK_ENTRY, "a '- ' where no list can be; an item of a list has a line of its own"},
    {parser::MAP_KEY, kColon},
    {parser::MAP_VALUE, kColon},
    {parser::UNKNOWN_TOKEN, "a value cannot begin with this character; put the text in quotes"},
    {parser::EOF_IN_SCALAR, kOpenQuote},
    {parser::DOC_IN_SCALAR, kOpenQuote},
    {parser::CHAR_IN_SCALAR, "a character that cannot be in this text; put the text in quotes"},
    {parser::SINGLE_QUOTED_CHAR, "a character that cannot be in single quotes; use double quotes"},
    {parser::INVALID_ESCAPE, "an unknown escape behind \\; use single quotes, in which \\ is a \\"},
    {parser::INVALID_HEX, kDigits},
    {parser::INVALID_UNICODE, kDigits},
    {parser::CHAR_IN_BLOCK, "text behind the | or > of a block; begin the text in the next line"},
    {parser::ZERO_INDENT_IN_BLOCK, "a block (| or >) with an indentation of 0; leave the number out"},
    {parser::UNKNOWN_ANCHOR, kNoAnchors},
    {parser::ALIAS_NOT_FOUND, kNoAnchors},
    {parser::ANCHOR_NOT_FOUND, kNoAnchors},
    {parser::CHAR_IN_ALIAS, kNoAnchors},
    {parser::CHAR_IN_ANCHOR, kNoAnchors},
    {parser::MULTIPLE_ANCHORS, kNoAnchors},
    {parser::ALIAS_CONTENT, kNoAnchors},
    {parser::CHAR_IN_TAG_HANDLE, kNoTags},
    {parser::TAG_WITH_NO_SUFFIX, kNoTags},
    {parser::END_OF_VERBATIM_TAG, kNoTags},
    {parser::MULTIPLE_TAGS, kNoTags},
    {parser::YAML_DIRECTIVE_ARGS, kNoDirectives},
    {parser::YAML_VERSION, kNoDirectives},
    {parser::YAML_MAJOR_VERSION, kNoDirectives},
    {parser::TAG_DIRECTIVE_ARGS, kNoDirectives},
}};

}  // namespace

std::string yaml_problem(const std::string& message) {
  for (const auto& [beginning, words] : kWords) {
    if (message.starts_with(beginning)) return words;
  }
  return "this cannot be read as YAML; check quotes, brackets and indentation";
}

}  // namespace cohort::internal
