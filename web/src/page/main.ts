// The page.

document.title = "barrage-server";
