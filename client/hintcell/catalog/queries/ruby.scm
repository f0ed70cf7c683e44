(method name: (_) @name) @function
(singleton_method name: (_) @name) @function

(class name: (_) @name) @container
(module name: (_) @name) @container

(comment) @above

((call method: (identifier) @_method) @import (#any-of? @_method "require" "require_relative"))
