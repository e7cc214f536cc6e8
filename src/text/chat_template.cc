#include "text/chat_template.h"

#include "text/jinja/interpreter.h"

namespace headrace::text {
namespace {

using jinja::TemplateError;

Status to_status(const TemplateError& e) {
  // raise_exception: the template's own words, nothing around them.
  if (e.code == Code::invalid_argument) return Status(e.code, e.message);
  if (e.line > 0) return make_status(e.code, "chat template, line {}: {}", e.line, e.message);
  return make_status(e.code, "chat template: {}", e.message);
}

class JinjaTemplate final : public ChatTemplate {
 public:
  explicit JinjaTemplate(jinja::Template parsed) : template_(std::move(parsed)) {}

  Result<RenderedPrompt> render(std::string_view variables_json, const RenderLimits& limits) const override {
    HR_ASSIGN_OR_RETURN(const jinja::Value variables, jinja::parse_json(variables_json));
    if (!variables.dict()) {
      return error(Code::malformed, "template variables: want an object, got {}",
                   jinja::type_name(variables));
    }
    try {
      jinja::Interpreter interpreter(template_, variables, limits);
      jinja::Text text = interpreter.render();
      return RenderedPrompt{std::move(text.bytes), std::move(text.trusted)};
    } catch (const TemplateError& e) {
      return tl::unexpected(to_status(e));
    }
  }

 private:
  jinja::Template template_;
};

}  // namespace

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::parse(std::string_view source) {
  try {
    return std::make_unique<JinjaTemplate>(jinja::parse(source));
  } catch (const TemplateError& e) {
    return tl::unexpected(to_status(e));
  }
}

}  // namespace headrace::text
