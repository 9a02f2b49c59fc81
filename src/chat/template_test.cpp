// Template against Python's jinja2: several hundred small templates (one feature each), and the published templates on
// a matrix of conversations. Expected results: tests/golden/chat, made by scripts/make_template_goldens.py. The
// published templates are no part of the repository: they come from MINFER_FIXTURES and from the models' own files, and
// only hashes of their text are kept here.
#include "chat/template.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/file_map.hpp"
#include "base/options.hpp"

namespace minfer::chat {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Value read_golden(const std::string& name) {
  return value_from_json(read_file(fs::path(MINFER_SOURCE_DIR) / "tests/golden/chat" / name));
}

std::tm fixed_clock() {  // Monday 2026-01-05 07:08:09
  std::tm now{};
  now.tm_year = 126;
  now.tm_mday = 5;
  now.tm_hour = 7;
  now.tm_min = 8;
  now.tm_sec = 9;
  now.tm_wday = 1;
  now.tm_yday = 4;
  return now;
}

RenderOptions fixed_options() {
  RenderOptions options;
  options.clock = fixed_clock;
  return options;
}

std::string fnv1a(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  return fmt::format("{:016x}", hash);
}

Value merged(const Value& base, const Value* extra) {
  Dict all = base.as_dict();
  if (extra != nullptr) {
    for (const auto& [name, value] : extra->as_dict().entries()) all.set(name, value);
  }
  return Value::dict(std::move(all));
}

// The line that an error's message names, as text.
std::string line_of(std::string_view message) {
  constexpr std::string_view kBefore = ", line ";
  const size_t at = message.find(kBefore);
  if (at == std::string_view::npos) return "";
  message.remove_prefix(at + kBefore.size());
  return std::string(message.substr(0, message.find(':')));
}

TEST(TemplateSnippets, RenderAsJinja2) {
  const Value golden = read_golden("snippets.json");
  const Value& base = *golden.as_dict().find("variables");
  const RenderOptions options = fixed_options();
  size_t count = 0;
  for (const Value& entry : golden.as_dict().find("snippets")->items()) {
    const Dict& snippet = entry.as_dict();
    const std::string& source = snippet.find("template")->as_string();
    const Value* expected = snippet.find("text");
    const Value* message = snippet.find("message");
    const Value* line = snippet.find("line");
    ++count;
    try {
      const Value variables = merged(base, snippet.find("variables"));
      const std::string text = Template::parse(source, "snippet").render(variables, options);
      if (expected == nullptr) {
        ADD_FAILURE() << source << "\nrendered: " << text << "\nexpected: " << snippet.find("raises")->as_string();
      } else {
        EXPECT_EQ(text, expected->as_string()) << source;
      }
    } catch (const Error& error) {
      if (expected != nullptr) {
        ADD_FAILURE() << source << "\nraised: " << error.what() << "\nexpected: " << expected->as_string();
        continue;
      }
      if (line != nullptr) {
        EXPECT_EQ(line_of(error.what()), fmt::format("{}", line->as_int())) << source << "\n" << error.what();
      }
      if (message != nullptr) {
        EXPECT_NE(std::string(error.what()).find(message->as_string()), std::string::npos)
            << source << "\n"
            << error.what() << "\nexpected: " << message->as_string();
      }
    }
  }
  EXPECT_GT(count, 900u);
}

// The string value of a GGUF metadata key, found by its encoding: u64 length, key, u32 type 8, u64 length, text.
std::string gguf_string(const fs::path& path, std::string_view key) {
  const FileMap map(path.string());
  const std::string_view bytes(reinterpret_cast<const char*>(map.bytes().data()),
                               std::min<size_t>(map.bytes().size(), 64u << 20));
  const size_t found = bytes.find(key);
  if (found == std::string_view::npos) return {};
  uint64_t size = 0;
  std::memcpy(&size, bytes.data() + found + key.size() + 4, sizeof(size));
  return std::string(bytes.substr(found + key.size() + 12, size));
}

// The source of a template that templates.json names; empty where it is not on this machine.
std::string published_source(const std::string& name) {
  const EnvironmentOptions& environment = environment_options();
  if (name.ends_with(".gguf")) {
    const fs::path path = fs::path(environment.model_dir) / name;
    return fs::exists(path) ? gguf_string(path, "tokenizer.chat_template") : "";
  }
  const fs::path path = fs::path(environment.fixtures) / "templates" / name;
  return !environment.fixtures.empty() && fs::exists(path) ? read_file(path) : "";
}

std::string render_or_raise(const Template& compiled, const Value& variables, std::string& shown) {
  try {
    shown = compiled.render(variables, fixed_options());
    return fnv1a(shown);
  } catch (const RaisedError& error) {
    shown = error.what();
    return "raises " + line_of(shown) + " " + fnv1a(error.template_message());
  } catch (const Error& error) {
    shown = error.what();
    return "raises";
  }
}

void check_template(const std::string& name, const std::string& source, const Dict& hashes,
                    const Value& conversations) {
  const Template compiled = Template::parse(source, name);
  for (const Value& entry : conversations.items()) {
    const std::string& conversation = entry.as_dict().find("name")->as_string();
    std::string shown;
    const std::string hash = render_or_raise(compiled, *entry.as_dict().find("variables"), shown);
    EXPECT_EQ(hash, hashes.find(conversation)->as_string()) << name << " on " << conversation << ":\n" << shown;
  }
}

TEST(PublishedTemplates, RenderAsJinja2) {
  const Value golden = read_golden("templates.json");
  const Value conversations = read_golden("conversations.json");
  size_t checked = 0;
  std::string missing;
  for (const auto& [name, hashes] : golden.as_dict().entries()) {
    const std::string source = published_source(name.as_string());
    if (source.empty()) {
      missing += " " + name.as_string();
      continue;
    }
    ++checked;
    check_template(name.as_string(), source, hashes.as_dict(), conversations);
  }
  if (environment_options().require_models) {
    EXPECT_EQ(missing, "");
  } else if (checked == 0) {
    GTEST_SKIP() << "no published template on this machine: set MINFER_FIXTURES or MINFER_MODEL_DIR";
  }
}

}  // namespace
}  // namespace minfer::chat
