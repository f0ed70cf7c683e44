; What JavaScript and TypeScript have in common; their own files have the rest.

[
  (function_declaration name: (identifier) @name)
  (generator_function_declaration name: (identifier) @name)
  (method_definition name: (_) @name)
] @function

; `const f = () => …`, also when it is the argument of another function, as in `const f = memo(() => …)`.
(variable_declarator
  name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @function
(variable_declarator
  name: (identifier) @name
  value: (call_expression
    arguments: (arguments [(arrow_function) (function_expression) (generator_function)]))) @function

(pair key: (_) @name value: [(arrow_function) (function_expression) (generator_function)]) @function
(assignment_expression
  left: [(identifier) (member_expression)] @name
  right: [(arrow_function) (function_expression) (generator_function)]) @function
(export_statement
  "default" @name
  value: [(arrow_function) (function_expression) (generator_function)]) @function

(variable_declarator name: (identifier) @name value: [(class) (object)]) @container
(pair key: (_) @name value: (object)) @container

[(comment) (decorator)] @above

(import_statement) @import
