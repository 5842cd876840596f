document.title="barrage-server";
