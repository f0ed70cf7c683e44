; The declarator of a function may be below those of the pointers that it returns.
(function_definition
  declarator: [
    (function_declarator declarator: (identifier) @name)
    (function_declarator declarator: (parenthesized_declarator
      (pointer_declarator (function_declarator declarator: (identifier) @name))))
    (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))
    (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name)))
  ]) @function

(preproc_function_def name: (identifier) @name) @macro

(comment) @above

(preproc_include) @import
