(method name: (_) @name) @function
(singleton_method name: (_) @name) @function

(class name: (_) @name) @container
(module name: (_) @name) @container

(comment) @above
