; Only what has a body: signatures in traits are in the rest.
(function_item name: (identifier) @name) @function
(macro_definition name: (identifier) @name) @function

(impl_item type: [(type_identifier) (scoped_type_identifier) (primitive_type)] @name) @container
(impl_item type: (generic_type type: (_) @name)) @container
(impl_item
  type: (reference_type
    type: [(type_identifier) (primitive_type) (generic_type type: (_) @name)] @name)) @container
(trait_item name: (type_identifier) @name) @container
(mod_item name: (identifier) @name body: (_)) @container

[(line_comment) (block_comment) (attribute_item)] @above

[(use_declaration) (extern_crate_declaration)] @import
