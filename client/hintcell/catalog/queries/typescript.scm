(public_field_definition name: (_) @name value: [(arrow_function) (function_expression)]) @function

[
  (class_declaration name: (_) @name)
  (abstract_class_declaration name: (_) @name)
  (internal_module name: (_) @name)
  (module name: (_) @name)
] @container
