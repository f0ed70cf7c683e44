; The declarator of a function may be below those of the pointers and references that it returns.
(function_definition
  declarator: [
    (function_declarator declarator: (_) @name)
    (operator_cast) @name
    (qualified_identifier) @name
    (reference_declarator (function_declarator declarator: (_) @name))
    (pointer_declarator declarator: (function_declarator declarator: (_) @name))
    (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name)))
    (pointer_declarator declarator: (reference_declarator (function_declarator declarator: (_) @name)))
  ]) @function

(preproc_function_def name: (identifier) @name) @macro

[
  (class_specifier name: (_) @name body: (_))
  (struct_specifier name: (_) @name body: (_))
  (union_specifier name: (_) @name body: (_))
  (namespace_definition name: (_) @name)
] @container

(template_declaration [(function_definition) (template_declaration)] @wrapped) @wrapper
(comment) @above

[(preproc_include) (using_declaration)] @import
