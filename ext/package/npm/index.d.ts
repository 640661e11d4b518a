/** The extension's file, for `database.loadExtension(...)`. */
export function getLoadablePath(): string;
