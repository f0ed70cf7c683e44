; Only what has a body: signatures of interfaces and abstract methods are in the rest, and so are properties that only
; hold a value. Namespaces are left out of the names: paths say the same.
(method_declaration name: (identifier) @name body: (_)) @function
(constructor_declaration name: (identifier) @name body: (_)) @function
(destructor_declaration "~" @name body: (_)) @function
(operator_declaration "operator" @name body: (_)) @function
(conversion_operator_declaration "operator" @name body: (_)) @function
(property_declaration name: (identifier) @name value: (arrow_expression_clause)) @function
(property_declaration
  name: (identifier) @name
  accessors: (accessor_list (accessor_declaration body: (_)))) @function
(indexer_declaration "this" @name accessors: (accessor_list (accessor_declaration body: (_)))) @function
(global_statement (local_function_statement name: (identifier) @name)) @function

[
  (class_declaration name: (identifier) @name)
  (struct_declaration name: (identifier) @name)
  (interface_declaration name: (identifier) @name)
  (record_declaration name: (identifier) @name)
  (enum_declaration name: (identifier) @name)
] @container

(comment) @above

[(using_directive) (extern_alias_directive)] @import
