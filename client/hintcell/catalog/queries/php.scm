; Only what has a body. Namespaces are left out of the names: paths say the same.
(function_definition name: (name) @name) @function
(method_declaration name: (name) @name body: (_)) @function

[
  (class_declaration name: (name) @name)
  (interface_declaration name: (name) @name)
  (trait_declaration name: (name) @name)
  (enum_declaration name: (name) @name)
] @container

(comment) @above

[(php_tag) (namespace_use_declaration) (namespace_definition !body)] @import
