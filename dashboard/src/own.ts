// Values by names from outside: tasks, labels and keys of data may be called `constructor` or `__proto__`.

/** The value under this key, if the object itself has it; not what it inherits. */
export function own<V>(object: Readonly<Record<string | number, V>>, key: string | number): V | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}
