; The line of an id is that of `def` (or `async`), and a text starts with the first decorator.
(function_definition name: (identifier) @name) @function @line
(class_definition name: (identifier) @name) @container
(decorated_definition definition: (function_definition) @wrapped) @wrapper

[(import_statement) (import_from_statement) (future_import_statement)] @import
