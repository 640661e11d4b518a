-- 08: encrypted arrays, and a connection that stays within a directory. Run it in the directory of tessera.so. It leaves the directories secret and open there: remove them before you run it again. The four errors that it prints are meant.
.load ./tessera
SELECT tessera_set_key('secret', '000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
CREATE VIRTUAL TABLE secret USING tessera('secret', encryption=aes_256_gcm, id INT32 DIMENSION(0, 99), what TEXT);
INSERT INTO secret VALUES(1, 'treasure');
SELECT * FROM secret;
SELECT encryption, cells FROM tessera_array('secret');

-- Without the key nobody opens it, and a wrong one is told apart.
SELECT tessera_set_key('secret', NULL);
SELECT cells FROM tessera_array('secret');
SELECT cells FROM tessera_array('secret', 'ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');

-- From now on, arrays below one directory only.
SELECT tessera_create_group('open');
CREATE VIRTUAL TABLE notes USING tessera('open/notes', id INT32 DIMENSION(0, 99), what TEXT);
SELECT tessera_restrict('open');
SELECT cells FROM tessera_array('open/notes');
SELECT cells FROM tessera_array('sql/data/relief');
SELECT cells FROM tessera_array('secret', '000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
