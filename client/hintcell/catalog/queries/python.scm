; The line of an id is that of `def` (or `async`), and a text starts with the first decorator.
(function_definition name: (identifier) @name) @function @line
(class_definition name: (identifier) @name) @container
(decorated_definition definition: (function_definition) @wrapped) @wrapper
