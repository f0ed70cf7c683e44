(function_declaration name: (identifier) @name body: (_)) @function

(method_declaration
  receiver: (parameter_list
    (parameter_declaration
      type: [
        (type_identifier) @receiver
        (generic_type type: (type_identifier) @receiver)
        (pointer_type [(type_identifier) @receiver (generic_type type: (type_identifier) @receiver)])
      ]))
  name: (field_identifier) @name) @function

(var_spec name: (identifier) @name value: (expression_list (func_literal))) @function

(comment) @above

[(package_clause) (import_declaration)] @import
