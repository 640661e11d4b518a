// For emscripten (build.py): what its file system can do for pages with files of their own, which this module never does. It is loaded after emscripten's
// library, and takes these functions out of it.
for (const name of ["createLazyFile", "createPreloadedFile", "indexedDB", "DB_NAME", "DB_VERSION", "DB_STORE_NAME", "saveFilesToDB", "loadFilesFromDB"]) {
  if (!(name in LibraryManager.library.$FS)) throw new Error(`emscripten's file system has no ${name}`);
  delete LibraryManager.library.$FS[name];
}
LibraryManager.library.$FS__deps = LibraryManager.library.$FS__deps.filter((name) => name !== "$asyncLoad");
