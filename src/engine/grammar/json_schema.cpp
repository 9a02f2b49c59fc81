// JSON Schema to grammar nodes, in three steps: shapes (what may stand where, schema/shapes.hpp), checks of them, and
// writing (schema/emit.hpp).
#include "engine/grammar/json_schema.hpp"

#include "base/error.hpp"
#include "engine/grammar/schema/emit.hpp"
#include "engine/grammar/schema/shapes.hpp"

namespace minfer::engine::grammar {

NodeId add_json_schema(AstBuilder& builder, const chat::Value& schema, const SchemaOptions& options) {
  schema::Shapes shapes = schema::make_shapes(schema, options);
  schema::find_possible(shapes);
  schema::check_disjoint(shapes);
  if (!shapes.possible(shapes.root)) {
    fail(ErrorCode::invalid_input, "JSON schema: no document is valid; loosen what its keywords exclude together");
  }
  return schema::Emitter(builder, shapes, options).emit();
}

NodeId add_json_object(AstBuilder& builder, const SchemaOptions& options) {
  chat::Dict object;
  object.set("type", chat::Value::string("object"));
  return add_json_schema(builder, chat::Value::dict(std::move(object)), options);
}

}  // namespace minfer::engine::grammar
