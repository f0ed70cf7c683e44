; Only what has a body: signatures of interfaces and abstract methods are in the rest.
(method_declaration name: (identifier) @name body: (_)) @function
(constructor_declaration name: (identifier) @name) @function
(compact_constructor_declaration name: (identifier) @name) @function

[
  (class_declaration name: (identifier) @name)
  (interface_declaration name: (identifier) @name)
  (enum_declaration name: (identifier) @name)
  (record_declaration name: (identifier) @name)
  (annotation_type_declaration name: (identifier) @name)
] @container

[(line_comment) (block_comment)] @above

[(package_declaration) (import_declaration)] @import
