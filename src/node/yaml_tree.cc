#include "node/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <map>
#include <sstream>
#include <utility>

#include "node/yaml_words.h"

namespace cohort::internal {

namespace {

TextPlace place_of(const YAML::Mark& mark) {
  return mark.is_null() ? TextPlace{} : TextPlace{mark.line + 1, mark.column + 1};
}

/// What Cohort does not take, in its own words.
struct Refusal : YAML::ParserException {
  using YAML::ParserException::ParserException;
};

[[noreturn]] void refuse(const YAML::Mark& mark, const std::string& text) { throw Refusal(mark, text); }

/// Puts the tree together. It throws Refusal at what it does not take, which ends the parser.
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(ConfigProblems& problems) : problems_(problems) {}

  [[nodiscard]] YamlNode take_root() { return std::move(root_); }
  /// Where the last text in quotes began.
  [[nodiscard]] TextPlace last_quote() const { return last_quote_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    // The parser would find new ones for ever in front of a lone comma.
    if (documents_++ > 0) refuse(mark, "a second document, or text after the end of the first; keep one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    count(mark);
    if (wants_key()) refuse(mark, "a key is missing or null; write it in quotes if it is meant");
    add({.kind = YamlNode::Kind::kNull, .place = place_of(mark)});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_anchor(mark); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    check(mark, tag);
    if (value.find('\0') != std::string::npos) refuse(mark, "text with a NUL character; leave it out");
    if (tag == "!") last_quote_ = place_of(mark);
    if (wants_key()) return begin_entry(value, place_of(mark));
    add({.kind = YamlNode::Kind::kScalar, .place = place_of(mark), .text = value, .is_quoted = tag == "!"});
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(mark, tag, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  /// A list or map whose end has not come.
  struct Open {
    YamlNode node = {};
    std::map<std::string, int> lines = {};  // Of its keys.
    bool has_key = false;
    bool is_duplicate = false;
    std::string key = {};
    TextPlace key_place = {};
  };

  [[noreturn]] static void refuse_anchor(const YAML::Mark& mark) { refuse(mark, kNoAnchors); }
  void count(const YAML::Mark& mark) {
    if (++nodes_ > kMaxYamlNodes) refuse(mark, "more than 100,000 keys and values; make the file smaller");
  }
  void check(const YAML::Mark& mark, const std::string& tag) {
    count(mark);
    if (!tag.empty() && tag != "?" && tag != "!") refuse(mark, kNoTags);
  }
  [[nodiscard]] bool wants_key() const {
    return !open_.empty() && open_.back().node.kind == YamlNode::Kind::kMap && !open_.back().has_key;
  }

  void begin_entry(const std::string& key, TextPlace place) {
    Open& map = open_.back();
    const auto [first, is_new] = map.lines.emplace(key, place.line);
    if (!is_new) {
      problems_.add(place, "duplicate key " + in_quotes(key) + "; it is in line " + std::to_string(first->second) +
                               " already, keep one of them");
    }
    map.has_key = true;
    map.is_duplicate = !is_new;
    map.key = key;
    map.key_place = place;
  }
  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& in = open_.back();
    in.has_key = false;
    if (std::exchange(in.is_duplicate, false)) return;
    node.key = std::move(in.key);
    node.key_place = in.node.kind == YamlNode::Kind::kMap ? in.key_place : node.place;
    in.node.children.push_back(std::move(node));
  }
  void open(const YAML::Mark& mark, const std::string& tag, YamlNode::Kind kind) {
    check(mark, tag);
    if (wants_key()) refuse(mark, "a list or a map as a key, or a bracket that is not closed; a key is text");
    if (open_.size() == kMaxYamlDepth) refuse(mark, "more than 32 levels, one inside the other; make it flatter");
    open_.push_back({.node = {.kind = kind, .place = place_of(mark)}});
  }
  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  ConfigProblems& problems_;
  std::vector<Open> open_ = {};
  YamlNode root_ = {};
  TextPlace last_quote_ = {};
  std::size_t nodes_ = 0;
  std::size_t documents_ = 0;
};

/// How many bytes the character at the beginning has; 0: it is not UTF-8, or a control character.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return first >= 0x20 || first == '\n' || first == '\r' || first == '\t' ? 1 : 0;
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool is_too_long = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool is_no_character = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return is_too_long || is_no_character ? 0 : bytes;
}

// The parser takes any bytes, and some control characters for the end of the text.
bool is_plain_text(std::string_view text, ConfigProblems& problems) {
  TextPlace place;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0) {
      problems.add(place, "a control character, or a byte that is not UTF-8; save the file as UTF-8 text");
      return false;
    }
    place =
        text[0] == '\n' ? TextPlace{place.line + 1, 1} : TextPlace{place.line, place.column + static_cast<int>(bytes)};
    text.remove_prefix(bytes);
  }
  return true;
}

// The parser takes the end of the text for the quote that is missing. Everything after the quote is lost then, so only
// the last one can be such.
bool is_closed(std::string_view text, TextPlace place) {
  for (int line = 1; line < place.line; ++line) text.remove_prefix(text.find('\n') + 1);
  text.remove_prefix(std::min(text.size(), static_cast<std::size_t>(place.column) - 1));
  if (text.empty() || (text[0] != '\'' && text[0] != '"')) return true;  // A block.
  const char quote = text[0];
  for (std::size_t i = 1; i < text.size(); ++i) {
    const bool is_twice = quote == '\'' && text.substr(i).starts_with("''");
    if (is_twice || (quote == '"' && text[i] == '\\')) {
      ++i;
    } else if (text[i] == quote) {
      return true;
    }
  }
  return false;
}

// The column of the first tab in the indentation of a line; 0: there is none.
int tab_in_indentation(std::string_view text, int line) {
  for (int i = 1; i < line; ++i) text.remove_prefix(std::min(text.size(), text.find('\n') + 1));
  const std::size_t tab = text.find_first_not_of(' ');
  return tab != std::string_view::npos && text[tab] == '\t' ? static_cast<int>(tab) + 1 : 0;
}

YamlNode parse(std::string_view text, ConfigProblems& problems) {
  std::istringstream in{std::string(text)};
  YAML::Parser parser(in);
  Builder builder(problems);
  while (parser.HandleNextDocument(builder)) {
  }
  if (!is_closed(text, builder.last_quote())) problems.add(builder.last_quote(), "a quote that is not closed");
  YamlNode root = builder.take_root();
  if (root.kind == YamlNode::Kind::kNull) root.kind = YamlNode::Kind::kMap;
  return root;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view name) const {
  const auto found =
      std::find_if(children.begin(), children.end(), [&](const YamlNode& each) { return each.key == name; });
  return kind == Kind::kMap && found != children.end() ? &*found : nullptr;
}

std::optional<YamlNode> read_yaml(std::string_view text, ConfigProblems& problems) {
  if (text.size() > kMaxYamlBytes) {
    problems.add({}, "the file has " + std::to_string(text.size()) + " bytes; at most 1 MiB is read");
    return std::nullopt;
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // A byte order mark.
  if (!is_plain_text(text, problems)) return std::nullopt;
  try {
    return parse(text, problems);
  } catch (const Refusal& refusal) {
    problems.add(place_of(refusal.mark), refusal.msg);
  } catch (const YAML::Exception& error) {
    const TextPlace place = place_of(error.mark);
    // The parser says many things of such a line, and seldom that it is the tab.
    if (const int tab = tab_in_indentation(text, place.line); tab != 0) {
      problems.add({place.line, tab}, kNoTabs);
    } else {
      problems.add(place, yaml_problem(error.msg));
    }
  } catch (const std::exception& error) {
    problems.add({}, std::string("the YAML cannot be read: ") + error.what());
  }
  return std::nullopt;
}

}  // namespace cohort::internal
