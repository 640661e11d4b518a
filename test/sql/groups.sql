-- Groups and directories: members, metadata, objects; at earlier times, missing, outside of the directory, in circles.
.load ./tessera
.headers on
.system cp -r arrays/new/groups g && chmod -R u+w g
SELECT * FROM tessera_members('g/top');
SELECT * FROM tessera_members('g/top') WHERE as_of = 10;
SELECT * FROM tessera_members('g/top/') WHERE as_of = 9;
SELECT * FROM tessera_members('g/unnamed');
SELECT as_of, name, path FROM tessera_members('g/readd') WHERE as_of IN (10, 20, 30) ORDER BY 1, 2;
SELECT * FROM tessera_members('g/empty');
SELECT * FROM tessera_members('arrays/old/lib2.8_py0.14.5/group');
SELECT * FROM tessera_metadata('g/top');
SELECT * FROM tessera_metadata('g/top') WHERE as_of = 20;
SELECT * FROM tessera_metadata('g/meta');
SELECT * FROM tessera_metadata('g/meta') WHERE as_of = 11;
SELECT * FROM tessera_metadata('g/meta_vac');
SELECT * FROM tessera_metadata('g/meta_vac') WHERE as_of = 12;
SELECT * FROM tessera_objects('g');
SELECT * FROM tessera_objects('g/top/sub/');
-- a member that is gone, and a member that is something else now
.system rm -r g/top/arr1 && rm -r g/top/sub/* && mkdir -p g/top/sub/__schema
SELECT * FROM tessera_members('g/top');
-- links that form a circle, and two links to one place; a file with the name of a directory; a link that leads nowhere
.system mkdir -p d/a/b d/c && cp -r arrays/new/groups/outside d/a/b/x && ln -s .. d/a/up && ln -s ../a d/c/a && ln -s ../.. d/a/b/root && ln -s nowhere d/lost && touch d/a/__schema
SELECT * FROM tessera_objects('d');
SELECT * FROM tessera_objects('d/c');
-- metadata values of every type
SELECT key, datatype, num, typeof(value), CASE typeof(value) WHEN 'blob' THEN hex(value) ELSE substr(value, 1, 60) END FROM tessera_metadata('arrays/new/metadata/all_types') WHERE key GLOB 'one_*' OR key GLOB 'str_*' OR key GLOB 'empty*';
SELECT sum(j.value) FROM tessera_metadata('arrays/new/metadata/all_types') m, json_each(m.value) j WHERE m.key = 'long_f64';
