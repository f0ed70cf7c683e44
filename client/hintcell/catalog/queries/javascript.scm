(field_definition property: (_) @name value: [(arrow_function) (function_expression)]) @function

(class_declaration name: (identifier) @name) @container
